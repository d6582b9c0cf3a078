/** Exhausted resources: requests, tokens, time, file descriptors, memory, CPU. */
import { execFileSync, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdirSync, readFileSync, rmdirSync, writeFileSync } from 'node:fs';
import { cpus } from 'node:os';
import { join } from 'node:path';
import { ask, dial, type Answer } from '../../http/ask.ts';
import { hold } from '../../support/hold.ts';
import { must, type Fault } from '../fault.ts';
import type { Scene } from '../scene.ts';
import { answer, ending } from '../see.ts';
import { startInShell } from '../shell.ts';
import { waitFor } from '../wait.ts';

const MEMORY_CGROUPS = '/sys/fs/cgroup/memory';
const MIB = 1024 * 1024;

/** A program that prints `ready`, waits for input, then allocates 8 MiB every 10 ms until the kernel kills it. */
const GLUTTON = `
  const taken = [];
  process.stdin.once('data', () => setInterval(() => taken.push(Buffer.alloc(8 * 1024 * 1024, 1)), 10));
  process.stdout.write('ready');
`;

/** A memory control group, like that of a container. It exists until the scene closes. */
interface MemoryGroup {
  /** Shell command that moves the shell and its later children into the group. */
  readonly join: string;
  /** Used memory in bytes, without file pages, which the kernel can drop. */
  used(): number;
  limit(bytes: number): void;
  lift(): void;
}

let groups = 0;

/** Creates the group. REQUIRES: `noMemoryGroup()` is undefined. */
function memoryGroup(scene: Scene): MemoryGroup {
  const group = join(MEMORY_CGROUPS, `svc-chaos-${process.pid}-${(groups += 1)}`);
  mkdirSync(group);
  // A group cannot be removed until its last process is gone.
  scene.onClose(async () => {
    await waitFor('the control group to be empty', () => readFileSync(join(group, 'cgroup.procs'), 'utf8') === '');
    rmdirSync(group);
  });
  const bound = join(group, 'memory.limit_in_bytes');
  return {
    join: `echo $$ >${join(group, 'cgroup.procs')}`,
    used: () => Number(/^total_rss (\d+)$/m.exec(readFileSync(join(group, 'memory.stat'), 'utf8'))?.[1]),
    limit: (bytes) => writeFileSync(bound, String(bytes)),
    lift: () => writeFileSync(bound, '-1'),
  };
}

/** Reason why no memory control group can be created here; undefined if it can. */
function noMemoryGroup(): string | undefined {
  const group = join(MEMORY_CGROUPS, `svc-chaos-${process.pid}`);
  try {
    if (!existsSync(MEMORY_CGROUPS)) throw new Error('there are none');
    mkdirSync(group);
    rmdirSync(group);
    return undefined;
  } catch {
    return 'needs the memory controller (cgroup v1), and the right to use it';
  }
}

/** Reason why limits of a running process cannot be changed here; undefined if they can. */
function noPrlimit(): string | undefined {
  const { status } = spawnSync('prlimit', [`--pid=${process.pid}`], { stdio: 'ignore' });
  return status === 0 ? undefined : 'needs prlimit of util-linux';
}

export const LIMITS: readonly Fault[] = [
  {
    name: 'more requests than the queue holds',
    planted: 'a hundred requests at once, `engine.queue_limit` 8, `engine.max_sequences` 2',
    mended: 'by itself',
    withinSeconds: 10,
    daemon: 'lives',
    config: { engine: { queue_limit: 8, max_sequences: 2 } },
    mayFail: ['rate_limit_exceeded'],
    sees: /^the whole answer, HTTP 429 rate_limit_exceeded: .*, each with Retry-After$/,
    async plant(scene) {
      // A stopped engine answers none, however late the others are sent.
      await scene.requests.ask({ model: 'tiny' });
      const { pid } = await scene.engine('tiny');
      const first = hold(pid);
      const asked = Array.from({ length: 100 }, () => scene.requests.ask({ model: 'tiny', maxTokens: 50 }));
      await waitFor('ninety to be refused', () => scene.requests.failed.get('rate_limit_exceeded') === 90);
      await scene.timed(() => {
        first.release();
        return Promise.all(asked);
      });
      const saw = [...new Set((await Promise.all(asked)).map((end) => end.saw))].sort((a, b) => b.length - a.length);

      const second = hold(pid);
      const body = { model: 'tiny', messages: [{ role: 'user', content: 'Hello' }], max_tokens: 50 };
      const answers: Answer[] = [];
      const others = Array.from({ length: 30 }, async () => {
        answers.push(await ask({ port: scene.port }, '/v1/chat/completions', { body }));
      });
      await waitFor('twenty of thirty to be refused', () => answers.length === 20);
      const hasRetryAfter = answers.every(
        ({ status, headers }) => status === 429 && Number(headers['retry-after']) > 0,
      );
      second.release();
      await Promise.all(others);
      must(hasRetryAfter, 'no Retry-After');
      return `${saw.reverse().join(', ')}, each with Retry-After`;
    },
  },
  {
    name: 'two hundred requests at once',
    planted: 'two hundred requests at once, all of which the queue holds',
    mended: 'by itself',
    withinSeconds: 15,
    daemon: 'lives',
    underLoad: true,
    sees: /^the whole answer$/,
    async plant(scene) {
      const asked = Array.from({ length: 200 }, (_, n) => scene.requests.ask({ stream: n % 2 === 0, maxTokens: 20 }));
      await scene.timed(() => Promise.all(asked));
      return [...new Set((await Promise.all(asked)).map(({ saw }) => saw))].join(', ');
    },
  },
  {
    name: 'prompt longer than the context',
    planted: 'a prompt of 20,000 words, under load',
    mended: 'by itself',
    withinSeconds: 3,
    daemon: 'lives',
    underLoad: true,
    mayFail: ['context_length_exceeded'],
    sees: /^HTTP 400 context_length_exceeded: the prompt exceeds the context window: .* maximum context length is \d+ tokens, and the prompt has at least \d+, plus one for the answer$/,
    async plant(scene) {
      let saw = '';
      await scene.timed(async () => ({ saw } = await scene.requests.ask({ prompt: 'llama '.repeat(20_000) })));
      return saw;
    },
  },
  {
    name: 'timeout shorter than the answer',
    planted: '`svc run --timeout 200ms` for an answer of seconds, under load',
    mended: 'by itself',
    withinSeconds: 3,
    daemon: 'lives',
    underLoad: true,
    sees: /^exit 124: .*, and the engines are idle$/,
    async plant(scene) {
      let saw = '';
      await scene.timed(async () => {
        saw = ending(
          await scene.svc('run', '-m', 'tiny', '--timeout', '200ms', '--temperature', '0', 'Count the sheep'),
        );
      }, 'tiny');
      await scene.calm();
      await scene.idle();
      return `${saw}, and the engines are idle`;
    },
  },
  {
    name: 'memory taken by another program',
    planted: 'a program in the container of the daemon allocates memory without limit in the middle of a stream',
    mended: 'the other program ended by the kernel, the limit lifted',
    withinSeconds: 15,
    daemon: 'absent',
    impossible: noMemoryGroup,
    mayFail: ['engine_crashed'],
    sees: /^the stream ended with engine_crashed: the engine of tiny was ended by SIGKILL/,
    async plant(scene) {
      const group = memoryGroup(scene);
      // The only engine.
      must((await scene.svc('model', 'default', 'tiny')).code === 0, 'it could not be made the default');
      await startInShell(scene, group.join);
      const pid = await scene.pid();
      const glutton = spawn('/bin/sh', ['-c', `${group.join} && exec "$@"`, 'sh', process.execPath, '-e', GLUTTON], {
        stdio: ['pipe', 'pipe', 'ignore'],
      });
      scene.onClose(() => void glutton.kill('SIGKILL'));
      const ended = once(glutton, 'exit');
      await once(glutton.stdout, 'data');
      const stream = await scene.heldStream();
      group.limit(group.used() + 128 * MIB);
      glutton.stdin.write('go');
      const { saw } = await stream.end;
      await ended;
      await scene.timed(() => group.lift(), 'tiny');
      await scene.recovered();
      must((await scene.pid()) === pid, 'the daemon is another');
      return saw;
    },
  },
  {
    name: 'no file descriptors left',
    planted: 'the limit of the daemon lowered to 64 descriptors, and a hundred connections that stay open',
    mended: 'the connections closed',
    withinSeconds: 5,
    daemon: 'lives',
    impossible: noPrlimit,
    sees: /^\/livez on an earlier connection: HTTP 200$/,
    async plant(scene) {
      const kept = await dial(scene.port);
      execFileSync('prlimit', [`--pid=${await scene.pid()}`, '--nofile=64:64']);
      const sockets = await Promise.all(Array.from({ length: 100 }, () => dial(scene.port)));
      for (const socket of sockets) socket.on('error', () => undefined);
      const answered = once(kept, 'data');
      kept.write('GET /livez HTTP/1.1\r\nhost: localhost\r\n\r\n');
      const [text] = (await answered) as [Buffer];
      kept.destroy();
      await scene.timed(() => sockets.forEach((socket) => socket.destroy()));
      return `/livez on an earlier connection: ${answer({ status: Number(text.toString().slice(9, 12)), text: '' })}`;
    },
  },
  {
    name: 'CPU taken by other programs',
    planted: 'two busy loops per core, under load',
    mended: 'by itself',
    withinSeconds: 5,
    daemon: 'lives',
    underLoad: true,
    sees: /^the whole answer$/,
    async plant(scene) {
      const loops = Array.from({ length: 2 * cpus().length }, () =>
        spawn(process.execPath, ['-e', 'for (;;);'], { stdio: 'ignore' }),
      );
      const ended = Promise.all(loops.map((loop) => once(loop, 'exit')));
      try {
        let saw = '';
        await scene.timed(async () => ({ saw } = await (await scene.stream()).end));
        return saw;
      } finally {
        for (const loop of loops) loop.kill('SIGKILL');
        await ended;
      }
    },
  },
  {
    name: 'default model changed under load',
    planted: '`svc model default` to another model and back while three clients send requests',
    mended: 'by itself',
    withinSeconds: 5,
    daemon: 'lives',
    underLoad: true,
    sees: /^exit 0, exit 0$/,
    async plant(scene) {
      const saw: string[] = [];
      await scene.timed(async () => {
        for (const model of ['tiny', 'builtin']) saw.push(ending(await scene.svc('model', 'default', model)));
      });
      return saw.join(', ');
    },
  },
];
