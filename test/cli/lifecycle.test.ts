/** Commands after an update of svc, an early crash of the daemon, or reuse of its pid by another process. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { cpSync, existsSync, mkdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import * as assert from 'uvu/assert';
import { VERSION } from '../../src/config/version.ts';
import { readDaemonFile, writeDaemonFile, type DaemonFile } from '../../src/home/daemon-file.ts';
import { childEnvironment } from '../../src/process/environment.ts';
import type { StatusRecord } from '../../src/protocol/records.ts';
import { assertExit } from '../support/exit.ts';
import { spawnDaemon } from '../support/daemon.ts';
import { svc } from '../support/svc.ts';
import { svcSuite } from '../support/svc-suite.ts';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));

const test = svcSuite('lifecycle');

test('a daemon of another version is reported on standard error only', async ({ home, run }) => {
  // As after an update: the running daemon was started from the files of another version.
  const other = join(home.dir, 'other');
  mkdirSync(other);
  for (const part of ['src', 'package.json']) cpSync(join(ROOT, part), join(other, part), { recursive: true });
  for (const part of ['CMakeLists.txt', 'node_modules', 'build', 'models', 'providers'])
    symlinkSync(join(ROOT, part), join(other, part));
  const manifest = join(other, 'package.json');
  writeFileSync(manifest, readFileSync(manifest, 'utf8').replace(`"version": "${VERSION}"`, '"version": "9.8.7"'));
  const daemon = await spawnDaemon(home, { entry: join(other, 'src', 'cli', 'main.ts') }).settled();

  const status = await run('status', '--json');
  assertExit(status, 0);
  assert.is((JSON.parse(status.stdout) as StatusRecord).version, '9.8.7');
  assert.match(status.stderr, `svc: the daemon has version 9.8.7, this command ${VERSION}`);
  assertExit(await run('stop'), 0);
  assert.is((await daemon.exit).code, 0);
  assertExit(await run('start', '--timeout', '150s'), 0);
  assert.is((await run('status')).stderr, '');
});

test('a daemon that crashes during startup: start reports how it ended and its last log lines', async ({ home }) => {
  // It logs, then aborts, as a bug in native code would.
  const plant = join(home.dir, 'plant.cjs');
  const log = join(home.dir, 'state', 'daemon.log');
  writeFileSync(
    plant,
    `const { existsSync, readFileSync } = require('node:fs');
    const log = ${JSON.stringify(log)};
    if (process.argv.includes('serve')) setInterval(() => {
      if (existsSync(log) && readFileSync(log, 'utf8').includes('"msg":"started"')) process.abort();
    }, 5);`,
  );
  const env = { NODE_OPTIONS: `--require ${plant}` };
  const result = await svc(['start', '--timeout', '150s'], { home, env });
  assertExit(result, 1);
  assert.match(result.stderr, 'last log lines:');
  assert.match(result.stderr, /started .*mode=background/);
  assert.match(result.stderr, 'svc: the daemon ended as it started (signal SIGABRT)');
  // Without the fault it starts, despite the files that the crash left.
  assertExit(await svc(['start', '--timeout', '150s'], { home }), 0);
});

test('stop never kills another process that got the pid of a dead daemon', async ({ home, run }) => {
  const started = await run('start', '--timeout', '150s', '--json');
  assertExit(started, 0);
  const { pid, socket } = JSON.parse(started.stdout) as StatusRecord;
  process.kill(pid as number, 'SIGKILL');
  const bystander = spawn(process.execPath, ['-e', 'setInterval(() => {}, 1000)'], { stdio: 'ignore' });
  // A silent process holds the socket, and the file has a pid that now belongs to another process.
  const silent = createServer();
  try {
    const path = join(home.dir, 'state', 'daemon.json');
    await writeDaemonFile(path, { ...(readDaemonFile(path) as DaemonFile), pid: bystander.pid as number });
    const socketPath = `${socket}.silent`;
    silent.listen(socketPath);
    await once(silent, 'listening');
    const stop = await svc(['stop', '--force'], { home, env: { SVC_SOCKET: socketPath } });
    assertExit(stop, 4);
    assert.match(stop.stderr, 'does not answer');
    assert.is(bystander.exitCode ?? bystander.signalCode, null, 'it lives');
    process.kill(bystander.pid as number, 0);
  } finally {
    silent.close();
    bystander.kill('SIGKILL');
    await once(bystander, 'exit');
  }
});

test('a command without the XDG_RUNTIME_DIR of the daemon, as from cron, finds the daemon', async ({ home }) => {
  if (process.platform !== 'linux') return;
  const user = join(home.dir, 'user');
  const [session, tmp] = [join(home.dir, 'rt'), join(home.dir, 'tmp')];
  for (const folder of [user, session, tmp]) mkdirSync(folder, { mode: 0o700 });
  const cron = {
    ...{ HOME: user, SVC_HOME: undefined, XDG_RUNTIME_DIR: undefined, TMPDIR: tmp },
    ...{ XDG_CONFIG_HOME: undefined, XDG_DATA_HOME: undefined, XDG_STATE_HOME: undefined, XDG_CACHE_HOME: undefined },
  };
  const inSession = { ...cron, XDG_RUNTIME_DIR: session };
  const socket = join(session, 'svc', 'svc.sock');
  try {
    assertExit(await svc(['start', '--timeout', '150s'], { home, env: inSession }), 0);
    const status = await svc(['status', '--json'], { home, env: cron });
    assertExit(status, 0);
    assert.is((JSON.parse(status.stdout) as StatusRecord).socket, socket);
    const answered = await svc(['run', '--max-tokens', '4', 'Hello'], { home, env: cron });
    assertExit(answered, 0);
    assert.not.match(answered.stderr, 'starting the daemon');
    assert.match((await svc(['stop', '--force'], { home, env: cron })).stdout, 'svc has stopped');
    assertExit(await svc(['status'], { home, env: inSession }), 3);

    assertExit(await svc(['start', '--timeout', '150s'], { home, env: inSession }), 0);
    assertExit(await svc(['uninstall', '--yes'], { home, env: cron }), 0);
    assert.not.ok(existsSync(socket), 'the daemon has ended');
  } finally {
    await svc(['stop', '--force'], { home, env: inSession });
  }
});

test('systemd does not start a service again that hung and was killed', async ({ home }) => {
  if (process.platform !== 'linux') return;
  const bin = join(home.dir, 'bin');
  const asked = join(home.dir, 'asked');
  mkdirSync(bin);
  const script = `#!/bin/sh\necho "$*" >>'${asked}'\ncase "$*" in *show*) echo ActiveState=active;; esac\n`;
  writeFileSync(join(bin, 'systemctl'), script, { mode: 0o755 });
  const { PATH = '' } = childEnvironment();
  const env = { XDG_CONFIG_HOME: join(home.dir, 'xdg'), PATH: `${bin}:${PATH}` };
  assertExit(await svc(['service', 'install'], { home, env }), 0);
  const daemon = await spawnDaemon(home, { args: ['serve', '--mode', 'service'] }).settled();
  daemon.kill('SIGSTOP');
  writeFileSync(asked, '');
  const stop = await svc(['stop', '--force'], { home, env });
  assertExit(stop, 0);
  assert.match(stop.stdout, 'svc was killed');
  assert.is((await daemon.exit).signal, 'SIGKILL');
  assert.is(readFileSync(asked, 'utf8'), '--user --no-ask-password stop svc.service\n');
});

test('garbage in place of the files that a daemon leaves does not prevent a start', async ({ home, run }) => {
  const state = join(home.dir, 'state');
  mkdirSync(state);
  for (const garbage of ['{"pid": 1', '\u0000\u0001', 'x'.repeat(100_000)]) {
    writeFileSync(join(state, 'daemon.json'), garbage);
    assertExit(await run('status'), 3);
    assertExit(await run('start', '--timeout', '150s'), 0);
    assertExit(await run('stop', '--force'), 0);
  }
});

test.run();
