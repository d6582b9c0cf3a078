/** More than there is of anything: requests, tokens, time, file descriptors, memory, processor. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdirSync, rmdirSync, writeFileSync } from 'node:fs';
import { cpus } from 'node:os';
import { join } from 'node:path';
import { childEnvironment } from '../../../src/config/environment.ts';
import { ask, dial } from '../../../test/http/ask.ts';
import { SVC_COMMAND } from '../../../test/support/svc.ts';
import { must, type Fault } from '../fault.ts';
import type { Scene } from '../scene.ts';
import { answer, ending } from '../see.ts';

const MEMORY_CGROUPS = '/sys/fs/cgroup/memory';
const MIB = 1024 * 1024;

/** Why no process can be given a bound on its memory; undefined: it can. */
function noMemoryBound(): string | undefined {
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

/** `svc start` from a shell that has set a limit first. */
async function startLimited(scene: Scene, limit: string): Promise<void> {
  const shell = spawn('/bin/sh', ['-c', `${limit} && exec "$@"`, 'sh', ...SVC_COMMAND, 'start'], {
    env: childEnvironment(scene.home.env),
    stdio: 'ignore',
  });
  const [code] = (await once(shell, 'exit')) as [number];
  must(code === 0, `svc start after ${limit}: exit ${String(code)}`);
}

export const LIMITS: readonly Fault[] = [
  {
    name: 'more requests than the queue takes',
    planted: 'a hundred requests at once, `engine.queue_limit` 8, `engine.max_sequences` 2',
    mended: 'by itself',
    withinSeconds: 10,
    daemon: 'lives',
    config: { engine: { queue_limit: 8, max_sequences: 2 } },
    mayFail: ['rate_limit_exceeded'],
    sees: /^the whole answer, HTTP 429 rate_limit_exceeded: .*, each with Retry-After$/,
    async plant(scene) {
      const asked = Array.from({ length: 100 }, () => scene.requests.ask({ model: 'tiny', maxTokens: 50 }));
      await scene.timed(() => Promise.all(asked));
      const saw = [...new Set((await Promise.all(asked)).map((end) => end.saw))].sort((a, b) => b.length - a.length);
      const body = { model: 'tiny', messages: [{ role: 'user', content: 'Hello' }], max_tokens: 50 };
      const others = await Promise.all(
        Array.from({ length: 30 }, () => ask({ port: scene.port }, '/v1/chat/completions', { body })),
      );
      const busy = others.filter((each) => each.status === 429);
      must(busy.length > 0 && busy.every(({ headers }) => Number(headers['retry-after']) > 0), 'no Retry-After');
      return `${saw.reverse().join(', ')}, each with Retry-After`;
    },
  },
  {
    name: 'two hundred requests at once',
    planted: 'two hundred requests at once, all of which the queue takes',
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
    name: 'prompt that does not fit',
    planted: 'a prompt of 20,000 words, under load',
    mended: 'by itself',
    withinSeconds: 3,
    daemon: 'lives',
    underLoad: true,
    mayFail: ['context_length_exceeded'],
    sees: /^HTTP 413 context_length_exceeded: .*\d+.*\d+/,
    async plant(scene) {
      let saw = '';
      await scene.timed(async () => ({ saw } = await scene.requests.ask({ prompt: 'llama '.repeat(20_000) })));
      return saw;
    },
  },
  {
    name: 'too little time',
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
    name: 'memory ends',
    planted:
      'the daemon put under a bound of 40 MiB more, as a container has one, then `svc run -m` with a model that takes more',
    mended: 'the bound lifted',
    withinSeconds: 10,
    daemon: 'lives',
    underLoad: true,
    impossible: noMemoryBound,
    sees: /^exit 69: the engine of tiny was ended by SIGKILL( while it was loading)?$/,
    async plant(scene) {
      const group = join(MEMORY_CGROUPS, `svc-chaos-${process.pid}`);
      const bound = join(group, 'memory.limit_in_bytes');
      mkdirSync(group);
      scene.onClose(() => rmdirSync(group));
      writeFileSync(bound, String(40 * MIB));
      writeFileSync(join(group, 'cgroup.procs'), String(await scene.pid()));
      const saw = ending(await scene.svc('run', '-m', 'tiny', 'Hello'));
      await scene.timed(() => writeFileSync(bound, '-1'), 'tiny');
      return saw;
    },
  },
  {
    name: 'no file descriptors left',
    planted: '`ulimit -n 64`, `svc start`, and a hundred connections that stay open',
    mended: 'the connections closed',
    withinSeconds: 5,
    daemon: 'absent',
    sees: /^\/livez on a connection of before: HTTP 200$/,
    async plant(scene) {
      await startLimited(scene, 'ulimit -n 64');
      const kept = await dial(scene.port);
      const sockets = await Promise.all(Array.from({ length: 100 }, () => dial(scene.port)));
      for (const socket of sockets) socket.on('error', () => undefined);
      const answered = once(kept, 'data');
      kept.write('GET /livez HTTP/1.1\r\nhost: localhost\r\n\r\n');
      const [text] = (await answered) as [Buffer];
      kept.destroy();
      await scene.timed(() => sockets.forEach((socket) => socket.destroy()));
      return `/livez on a connection of before: ${answer({ status: Number(text.toString().slice(9, 12)), text: '' })}`;
    },
  },
  {
    name: 'processor taken by others',
    planted: 'a busy loop for each core, twice, under load',
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
    planted: '`svc model default` there and back while three clients ask',
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
