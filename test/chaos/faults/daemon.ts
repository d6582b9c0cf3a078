/** Faults of the daemon process, and of clients that start, stop or query it. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { childEnvironment } from '../../../src/process/environment.ts';
import { readDaemonFile } from '../../../src/home/daemon-file.ts';
import type { StatusRecord } from '../../../src/protocol/records.ts';
import { SVC_COMMAND } from '../../support/svc.ts';
import { gone, waitFor } from '../wait.ts';
import { must, type Fault } from '../fault.ts';
import { CLIENTS } from '../load.ts';
import type { Scene } from '../scene.ts';
import { ending } from '../see.ts';

/** Errors while no daemon runs. */
const AWAY = ['no connection', 'not_ready'];
/** Connections that the kernel accepted but the daemon did not are reset when the daemon closes its socket. */
const UNTAKEN = CLIENTS;

/** Reads from `svc status`, without a daemon, how the last one ended. */
async function lastExit(scene: Scene): Promise<string> {
  const { code, stdout } = await scene.svc('status', '--json');
  must(code === 3, `svc status: exit ${String(code)}`);
  return `exit 3: ${(JSON.parse(stdout) as StatusRecord).last_exit?.reason ?? 'nothing is known of the last one'}`;
}

function endedIdle(signal: 'SIGKILL' | 'SIGSEGV'): Fault {
  return {
    name: `idle daemon ended by ${signal}`,
    planted: `\`kill -${signal.slice(3)}\` of the daemon, then \`svc status\``,
    mended: '`svc start`',
    withinSeconds: 8,
    daemon: 'ends',
    sees: /^exit 3: it ended unexpectedly/,
    async plant(scene) {
      const pid = await scene.pid();
      process.kill(pid, signal);
      await gone(pid);
      const saw = await lastExit(scene);
      await scene.timed(() => scene.start());
      return saw;
    },
  };
}

export const DAEMON: readonly Fault[] = [
  endedIdle('SIGKILL'),
  endedIdle('SIGSEGV'),
  {
    name: 'daemon killed in the middle of an answer',
    planted: '`kill -9` of the daemon while `svc run` prints and three clients send requests',
    mended: '`svc run`, which starts it',
    withinSeconds: 8,
    daemon: 'ends',
    underLoad: true,
    mayFail: AWAY,
    mayLose: CLIENTS + UNTAKEN,
    sees: /^exit 3: the daemon went away before its answer was complete$/,
    async plant(scene) {
      const run = await scene.run();
      const engine = await scene.engine('tiny');
      const pid = await scene.pid();
      let saw = '';
      await scene.timed(async () => {
        process.kill(pid, 'SIGKILL');
        saw = ending(await run.result);
        await gone(engine.pid);
        const again = await scene.svc('run', 'Hello');
        must(again.code === 0, `svc run: ${ending(again)}`);
      });
      return saw;
    },
  },
  {
    name: 'daemon killed as it starts',
    planted: '`kill -9` of the daemon as soon as it has written `daemon.json`, before `svc start` returns',
    mended: '`svc start`',
    withinSeconds: 8,
    daemon: 'absent',
    sees: /^exit 1: the daemon ended as it started \(signal SIGKILL\)$/,
    async plant(scene) {
      const start = scene.spawn(['start']);
      const { pid } = await waitFor('daemon.json', () => readDaemonFile(scene.path('state', 'daemon.json')), {
        intervalMs: 1,
      });
      process.kill(pid, 'SIGKILL');
      const saw = ending(await start.result);
      await scene.timed(() => scene.start());
      return saw;
    },
  },
  {
    name: 'SIGTERM in the middle of a stream',
    planted: '`kill -TERM` of the daemon after the first words, under load',
    mended: '`svc start`',
    withinSeconds: 20,
    daemon: 'ends',
    underLoad: true,
    mayFail: AWAY,
    mayLose: UNTAKEN,
    sees: /^the whole answer$/,
    async plant(scene) {
      const stream = await scene.stream();
      const pid = await scene.pid();
      process.kill(pid, 'SIGTERM');
      const { saw } = await stream.end;
      await gone(pid);
      await scene.timed(() => scene.start());
      return saw;
    },
  },
  {
    name: 'a second SIGTERM',
    planted: '`kill -TERM` of the daemon in the middle of a stream, and again while the daemon waits for the stream',
    mended: '`svc start`',
    withinSeconds: 8,
    daemon: 'ends',
    underLoad: true,
    mayFail: AWAY,
    mayLose: UNTAKEN,
    sees: /^the stream ended with not_ready: svc is stopping$/,
    async plant(scene) {
      const stream = await scene.heldStream();
      const pid = await scene.pid();
      process.kill(pid, 'SIGTERM');
      await waitFor('it to wait', () => scene.log().includes('waiting for what is under way'));
      process.kill(pid, 'SIGTERM');
      const { saw } = await stream.end;
      await gone(pid);
      await scene.timed(() => scene.start());
      return saw;
    },
  },
  {
    name: 'stop while many requests are answered',
    planted: '`svc stop` while forty clients wait for their answers',
    mended: '`svc start`',
    withinSeconds: 15,
    daemon: 'ends',
    sees: /^exit 0, forty whole answers$/,
    async plant(scene) {
      const asked = Array.from({ length: 40 }, () => scene.requests.ask({ model: 'tiny', maxTokens: 100 }));
      await scene.underWay(40);
      const stop = await scene.svc('stop');
      const ends = await Promise.all(asked);
      const answered = ends.filter(({ kind }) => kind === 'answered').length;
      await scene.timed(() => scene.start());
      return `${ending(stop)}, ${answered === 40 ? 'forty' : String(answered)} whole answers`;
    },
  },
  {
    name: 'daemon hangs',
    planted: '`kill -STOP` of the daemon, then `svc status` and `svc stop`',
    mended: '`svc stop`, which kills it, and `svc start`',
    withinSeconds: 8,
    daemon: 'ends',
    sees: /^exit 4: the daemon does not answer, then exit 124: the daemon does not answer: killing it \(pid N\)$/,
    async plant(scene) {
      process.kill(await scene.pid(), 'SIGSTOP');
      const status = ending(await scene.svc('status'));
      const stop = ending(await scene.svc('stop'));
      await scene.timed(() => scene.start());
      return `${status}, then ${stop}`;
    },
  },
  {
    name: 'daemon paused for a while',
    planted:
      '`kill -STOP` of the daemon in the middle of a stream, `kill -CONT` after 3 s, `engine.stall_timeout_seconds` 1',
    mended: 'by itself',
    withinSeconds: 5,
    daemon: 'lives',
    underLoad: true,
    config: { engine: { stall_timeout_seconds: 1 } },
    sees: /^the whole answer$/,
    async plant(scene) {
      const stream = await scene.stream();
      const pid = await scene.pid();
      const engine = await scene.engine('tiny');
      process.kill(pid, 'SIGSTOP');
      // The fault is this delay itself.
      await new Promise((resolve) => setTimeout(resolve, 3000));
      await scene.timed(() => process.kill(pid, 'SIGCONT'));
      const { saw } = await stream.end;
      must((await scene.engine('tiny')).pid === engine.pid, 'its engine is another');
      return saw;
    },
  },
  {
    name: 'two starts at once',
    planted: 'two `svc start` at the same moment',
    mended: 'by itself',
    withinSeconds: 8,
    daemon: 'absent',
    sees: /^exit 0 and exit 0, one daemon$/,
    async plant(scene) {
      const starts = [1, 2].map(() => scene.svc('start', '--json'));
      await scene.timed(() => Promise.all(starts));
      const ends = await Promise.all(starts);
      const pids = new Set(ends.map(({ stdout }) => (JSON.parse(stdout) as StatusRecord).pid));
      return `${ends.map(ending).join(' and ')}, ${pids.size === 1 ? 'one daemon' : `${pids.size} daemons`}`;
    },
  },
  {
    name: 'five prompts and no daemon',
    planted: 'five `svc run` at the same moment, each of which starts a daemon',
    mended: 'by itself',
    withinSeconds: 15,
    daemon: 'absent',
    sees: /^five times exit 0, one daemon$/,
    async plant(scene) {
      const runs = Array.from({ length: 5 }, () => scene.svc('run', 'Hello'));
      await scene.timed(() => Promise.all(runs));
      const ends = new Set((await Promise.all(runs)).map(ending));
      const started = scene.log().split('"msg":"started"').length - 1;
      must(started === 1, `${started} daemons have started`);
      return `${[...ends].map((end) => `five times ${end}`).join(', ')}, one daemon`;
    },
  },
  {
    name: 'shell that started the daemon killed',
    planted: '`kill -9` of the shell that called `svc start`, and of its whole process group',
    mended: 'by itself',
    withinSeconds: 5,
    daemon: 'absent',
    sees: /^exit 0$/,
    async plant(scene) {
      const shell = spawn('/bin/sh', ['-c', '"$@"; echo started; exec sleep 60', 'sh', ...SVC_COMMAND, 'start'], {
        env: childEnvironment(scene.home.env),
        detached: true,
        stdio: ['ignore', 'pipe', 'ignore'],
      });
      let said = '';
      shell.stdout.setEncoding('utf8').on('data', (text: string) => (said += text));
      const ended = once(shell, 'exit');
      await waitFor('the daemon to be started', () => said.includes('started\n'));
      await scene.timed(() => process.kill(-(shell.pid ?? 0), 'SIGKILL'));
      await ended;
      return ending(await scene.svc('status'));
    },
  },
  {
    name: 'command killed in the middle of its answer',
    planted: '`kill -9` of `svc run` after the first words',
    mended: 'by itself',
    withinSeconds: 5,
    daemon: 'lives',
    underLoad: true,
    sees: /^ended by SIGKILL, and its engine is idle$/,
    async plant(scene) {
      const run = await scene.run();
      await scene.timed(() => run.child.kill('SIGKILL'), 'tiny');
      const saw = ending(await run.result);
      await scene.calm();
      await scene.idle();
      return `${saw}, and its engine is idle`;
    },
  },
  {
    name: 'Ctrl-C in the middle of an answer',
    planted: '`kill -INT` of `svc run` after the first words',
    mended: 'by itself',
    withinSeconds: 5,
    daemon: 'lives',
    underLoad: true,
    sees: /^exit 130: cancelled, and its engine is idle$/,
    async plant(scene) {
      const run = await scene.run();
      await scene.timed(() => run.child.kill('SIGINT'), 'tiny');
      const saw = ending(await run.result);
      await scene.calm();
      await scene.idle();
      return `${saw}, and its engine is idle`;
    },
  },
  {
    name: 'reader of the answer goes away',
    planted: 'the pipe behind `svc run` is closed after the first words, as `svc run | head` does',
    mended: 'by itself',
    withinSeconds: 5,
    daemon: 'lives',
    sees: /^exit 0, and its engine is idle$/,
    async plant(scene) {
      const run = await scene.run();
      await scene.timed(() => run.child.stdout?.destroy(), 'tiny');
      const saw = ending(await run.result);
      await scene.idle();
      return `${saw}, and its engine is idle`;
    },
  },
  {
    name: 'fifty SIGHUP under load',
    planted: '`kill -HUP` of the daemon fifty times; each time it reads its config',
    mended: 'by itself',
    withinSeconds: 5,
    daemon: 'lives',
    underLoad: true,
    config: { log: { level: 'info' } },
    sees: /^the whole answer$/,
    async plant(scene) {
      const stream = await scene.stream();
      const pid = await scene.pid();
      await scene.timed(() => {
        for (let count = 0; count < 50; count += 1) process.kill(pid, 'SIGHUP');
      });
      return (await stream.end).saw;
    },
  },
];
