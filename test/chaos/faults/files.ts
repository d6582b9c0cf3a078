/** Faults of the files of a daemon: daemon.json, socket, lock and log. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdirSync, readFileSync, renameSync, rmSync, truncateSync, writeFileSync } from 'node:fs';
import { readDaemonFile, writeDaemonFile, type DaemonFile } from '../../../src/home/daemon-file.ts';
import { waitFor } from '../wait.ts';
import { mountDisk, noDisk } from '../disk.ts';
import { must, type Fault } from '../fault.ts';
import type { Scene } from '../scene.ts';
import { ending } from '../see.ts';

async function killDaemon(scene: Scene): Promise<void> {
  const pid = await scene.pid();
  process.kill(pid, 'SIGKILL');
  await waitFor('the daemon to be gone', async () => (await scene.svc('status')).code === 3);
}

/** Makes the daemon write a log line that names the model. */
async function writeLine(scene: Scene): Promise<void> {
  const { code, stderr } = await scene.svc('model', 'load', 'tiny');
  must(code === 0, `svc model load: ${stderr}`);
}

/** Checks that `svc logs` prints the line of `writeLine`. */
async function logged(scene: Scene): Promise<string> {
  await waitFor('the line in svc logs', async () => (await scene.svc('logs')).stdout.includes('"model":"tiny"'), {
    intervalMs: 200,
  });
  return 'every line in `svc logs`';
}

/** The control socket is removed while an answer is in flight. */
function socketAway(name: string, planted: string, remove: (scene: Scene) => void): Fault {
  return {
    name,
    planted,
    mended: 'by itself',
    withinSeconds: 3,
    daemon: 'lives',
    underLoad: true,
    sees: /^svc run: exit 0, svc status: exit 0$/,
    async plant(scene) {
      const run = await scene.run();
      await scene.timed(() => remove(scene));
      await waitFor('the socket to be back', () => existsSync(scene.path('run', 'svc.sock')));
      return `svc run: ${ending(await run.result)}, svc status: ${ending(await scene.svc('status'))}`;
    },
  };
}

/** Another program rotates the log while `svc logs -f` reads it. */
function underLogsFollow(name: string, planted: string, rotate: (logFile: string) => void): Fault {
  return {
    name,
    planted,
    mended: 'by itself',
    withinSeconds: 3,
    daemon: 'lives',
    underLoad: true,
    sees: /^every line in `svc logs -f` and in `svc logs`$/,
    async plant(scene) {
      const follow = scene.spawn(['logs', '-f']);
      scene.onClose(() => void follow.child.kill('SIGKILL'));
      await waitFor('the log', () => follow.stdout().includes('"msg":"started"'));
      await scene.timed(() => rotate(scene.logFile));
      await writeLine(scene);
      await waitFor('the line', () => follow.stdout().includes('"model":"tiny"'));
      follow.child.kill('SIGINT');
      await follow.result;
      await logged(scene);
      return 'every line in `svc logs -f` and in `svc logs`';
    },
  };
}

export const FILES: readonly Fault[] = [
  {
    name: 'daemon.json is garbage',
    planted: '`daemon.json` overwritten with garbage while the daemon runs',
    mended: 'by itself',
    withinSeconds: 5,
    daemon: 'lives',
    underLoad: true,
    sees: /^svc status: exit 0, svc run: exit 0, svc health: exit 0$/,
    async plant(scene) {
      await scene.timed(() => writeFileSync(scene.path('state', 'daemon.json'), '{"pid": 1\u0000'));
      const status = ending(await scene.svc('status'));
      const run = ending(await scene.svc('run', 'Hello'));
      const health = await waitFor(
        'svc health to find the daemon again',
        async () => {
          const result = await scene.svc('health');
          return result.code === 0 && ending(result);
        },
        { intervalMs: 500 },
      );
      return `svc status: ${status}, svc run: ${run}, svc health: ${health}`;
    },
  },
  {
    name: 'daemon.json is removed',
    planted: '`daemon.json` removed while the daemon runs, then `svc start`',
    mended: 'by itself',
    withinSeconds: 5,
    daemon: 'lives',
    underLoad: true,
    sees: /^exit 0, and the file is back$/,
    async plant(scene) {
      const file = scene.path('state', 'daemon.json');
      await scene.timed(() => rmSync(file));
      const saw = ending(await scene.svc('start'));
      await waitFor('the file to be back', () => existsSync(file));
      return `${saw}, and the file is back`;
    },
  },
  socketAway('control socket removed', 'the socket’s file removed while `svc run` prints', (scene) =>
    rmSync(scene.path('run', 'svc.sock')),
  ),
  socketAway(
    'runtime directory removed',
    'the directory of the control socket removed while `svc run` prints',
    (scene) => rmSync(scene.path('run'), { recursive: true }),
  ),
  {
    name: 'another daemon while the socket is away',
    planted: 'the socket’s file removed, and `svc serve` at the same moment',
    mended: 'by itself',
    withinSeconds: 3,
    daemon: 'lives',
    underLoad: true,
    sees: /^exit 1: svc is already running \(pid N\) at \$SVC_HOME\/run\/svc\.sock$/,
    async plant(scene) {
      await scene.timed(() => rmSync(scene.path('run', 'svc.sock')));
      return ending(await scene.svc('serve'));
    },
  },
  {
    name: 'a file in the place of the socket',
    planted: 'a file of the user is where the control socket belongs, then `svc start`',
    mended: 'the file moved away, `svc start`',
    withinSeconds: 8,
    daemon: 'absent',
    sees: /^exit 1: the daemon ended as it started \(exit code 78\): \$SVC_HOME\/run\/svc\.sock is there and is not a socket, and the file is unchanged$/,
    async plant(scene) {
      const socket = scene.path('run', 'svc.sock');
      mkdirSync(scene.path('run'), { mode: 0o700 });
      writeFileSync(socket, 'precious');
      const saw = ending(await scene.svc('start'));
      must(readFileSync(socket, 'utf8') === 'precious', 'the file is not what it was');
      await scene.timed(async () => {
        renameSync(socket, scene.path('precious'));
        await scene.start();
      });
      return `${saw}, and the file is unchanged`;
    },
  },
  {
    name: 'lock left by a killed start',
    planted: '`start.lock` left behind, as a killed start leaves it, then `svc start`',
    mended: 'by itself, once the lock is stale',
    withinSeconds: 15,
    daemon: 'absent',
    sees: /^exit 0$/,
    async plant(scene) {
      mkdirSync(scene.path('state', 'start.lock'), { recursive: true });
      let saw = '';
      await scene.timed(async () => (saw = ending(await scene.svc('start'))));
      return saw;
    },
  },
  {
    name: 'pid reused by another process',
    planted:
      'daemon killed with `kill -9`, the pid in `daemon.json` now belongs to another process; `svc stop`, `svc start`',
    mended: '`svc start`',
    withinSeconds: 8,
    daemon: 'ends',
    sees: /^svc stop: exit 0, svc start: exit 0, the other process lives$/,
    async plant(scene) {
      const file = scene.path('state', 'daemon.json');
      await killDaemon(scene);
      const bystander = spawn('sleep', ['60'], { stdio: 'ignore' });
      const ended = once(bystander, 'exit');
      try {
        await writeDaemonFile(file, { ...(readDaemonFile(file) as DaemonFile), pid: bystander.pid ?? 0 });
        const stop = ending(await scene.svc('stop'));
        let start = '';
        await scene.timed(async () => (start = ending(await scene.svc('start'))));
        must(bystander.exitCode === null && bystander.signalCode === null, 'the other process was ended');
        return `svc stop: ${stop}, svc start: ${start}, the other process lives`;
      } finally {
        bystander.kill('SIGKILL');
        await ended;
      }
    },
  },
  {
    name: 'log file removed',
    planted: '`daemon.log` removed while the daemon runs, then `svc model load`, `svc logs`',
    mended: 'by itself',
    withinSeconds: 3,
    daemon: 'lives',
    underLoad: true,
    sees: /^every line in `svc logs`$/,
    async plant(scene) {
      await scene.timed(() => rmSync(scene.logFile));
      await writeLine(scene);
      return await logged(scene);
    },
  },
  underLogsFollow(
    'log file moved away under logs -f',
    '`daemon.log` renamed to `daemon.log.1`, as logrotate does, while `svc logs -f` reads it',
    (log) => renameSync(log, `${log}.1`),
  ),
  underLogsFollow(
    'log file truncated under logs -f',
    '`daemon.log` truncated, as logrotate’s `copytruncate` does, while `svc logs -f` reads it',
    truncateSync,
  ),
  {
    name: 'state directory removed',
    planted: 'the directory of `daemon.json` and `daemon.log` removed while the daemon runs',
    mended: 'by itself',
    withinSeconds: 3,
    daemon: 'lives',
    underLoad: true,
    sees: /^svc run: exit 0, every line in `svc logs`$/,
    async plant(scene) {
      await scene.timed(() => rmSync(scene.path('state'), { recursive: true }));
      const run = ending(await scene.svc('run', 'Hello'));
      await writeLine(scene);
      return `svc run: ${run}, ${await logged(scene)}`;
    },
  },
  {
    name: 'state directory read-only at the start',
    planted: 'its file system mounted read-only, then `svc start`',
    mended: 'mounted for writing, `svc start`',
    withinSeconds: 8,
    daemon: 'absent',
    impossible: noDisk,
    sees: /^exit 73: cannot write \$SVC_HOME\/state\/daemon\.stderr: the file system is read-only/,
    async plant(scene) {
      const disk = mountDisk(scene, scene.path('state'));
      disk.readOnly();
      const saw = ending(await scene.svc('start'));
      await scene.timed(async () => {
        disk.writable();
        await scene.start();
      });
      return saw;
    },
  },
];
