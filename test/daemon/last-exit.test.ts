/** Exits of a daemon, each produced for real, and how the next daemon reports them. */
import { execFileSync, spawn } from 'node:child_process';
import { closeSync, existsSync, mkdirSync, openSync, readFileSync, rmdirSync, writeFileSync } from 'node:fs';
import { once } from 'node:events';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import * as assert from 'uvu/assert';
import { readDaemonFile, writeDaemonFile, type DaemonFile } from '../../src/home/daemon-file.ts';
import { childEnvironment } from '../../src/process/environment.ts';
import { isKillForMemory } from '../../src/process/kernel-log.ts';
import { lastExit } from '../../src/home/last-exit.ts';
import { crashFile } from '../../src/home/paths.ts';
import { identifyProcess, isAlive } from '../../src/process/process-identity.ts';
import { compiled } from '../support/compiled.ts';
import { daemonSuite, startIn, type DaemonContext } from '../support/daemon-suite.ts';
import type { DaemonProcess, DaemonProcessOptions } from '../support/daemon.ts';
import { waitFor } from '../support/wait.ts';

const entry = compiled(fileURLToPath(new URL('scripted-daemon.ts', import.meta.url)));
const MEMORY_CGROUPS = '/sys/fs/cgroup/memory';

interface Context extends DaemonContext {
  path: string;
}

const test = daemonSuite<Context>('last-exit');
test.before.each((context) => {
  context.path = join(context.home.dir, 'state', 'daemon.json');
});

async function start(context: Context, options: DaemonProcessOptions = {}): Promise<DaemonProcess> {
  return await startIn(context, { entry, args: [], ...options }).settled();
}

async function change(path: string, changes: Partial<DaemonFile>): Promise<void> {
  await writeDaemonFile(path, { ...(readDaemonFile(path) as DaemonFile), ...changes });
}

test('the next daemon reports how the previous one ended', async (context) => {
  const ends = [
    { how: (daemon: DaemonProcess) => daemon.kill('SIGTERM'), code: 0, signal: 'SIGTERM', reason: /^SIGTERM$/ },
    { how: (daemon: DaemonProcess) => void daemon.client.stop(0), code: 0, signal: null, reason: /^svc stop$/ },
    {
      how: (daemon: DaemonProcess) => daemon.send({ crash: true }),
      code: 1,
      signal: null,
      reason: /^a bug: TypeError/,
    },
    { how: (daemon: DaemonProcess) => daemon.kill('SIGKILL'), code: null, signal: null, reason: /kill -9/ },
  ];
  for (const { how, code, signal, reason } of ends) {
    const daemon = await start(context);
    how(daemon);
    await daemon.exit;
    const next = await start(context);
    const { last_exit } = await next.client.status();
    assert.equal([last_exit?.code, last_exit?.signal], [code, signal]);
    assert.match(last_exit?.reason ?? '', reason);
    next.kill('SIGKILL');
    await next.exit;
  }
});

test('after another boot: the machine was restarted', async (context) => {
  const daemon = await start(context);
  daemon.kill('SIGKILL');
  await daemon.exit;
  const { process } = readDaemonFile(context.path) as DaemonFile;
  assert.type(process?.boot_id, 'string');
  await change(context.path, { process: { boot_id: 'another', start_ticks: process?.start_ticks ?? 0 } });
  assert.match(lastExit(context.path)?.reason ?? '', 'machine was restarted');
});

test('a JavaScript heap that ran out of memory', async (context) => {
  mkdirSync(join(context.home.dir, 'state'));
  const stderr = openSync(crashFile({ stateDir: join(context.home.dir, 'state') }), 'a');
  const child = spawn(process.execPath, ['--max-old-space-size=64', '--import', 'tsx', entry], {
    env: childEnvironment(context.home.env),
    stdio: ['ignore', stderr, stderr, 'ipc'],
  });
  closeSync(stderr);
  const ended = once(child, 'exit');
  await waitFor('the daemon', () => readDaemonFile(context.path)?.http);
  child.send({ hoard: true });
  assert.equal(await ended, [null, 'SIGABRT']);
  const exit = lastExit(context.path);
  assert.is(exit?.signal, 'SIGABRT');
  assert.match(exit?.reason ?? '', 'JavaScript heap');
  const next = await start(context);
  assert.equal((await next.client.status()).last_exit?.reason, exit?.reason);
});

test('killed by the kernel for lack of memory', async (context) => {
  const group = join(MEMORY_CGROUPS, `svc-test-${String(process.pid)}`);
  try {
    mkdirSync(group);
    execFileSync('dmesg', { stdio: 'pipe' });
  } catch {
    if (existsSync(group)) rmdirSync(group);
    console.log('skipped: needs the memory controller (cgroup v1) and the kernel log');
    return;
  }
  try {
    const daemon = await start(context);
    writeFileSync(join(group, 'cgroup.procs'), String(daemon.pid));
    const used = Number(readFileSync(join(group, 'memory.usage_in_bytes'), 'utf8'));
    writeFileSync(join(group, 'memory.limit_in_bytes'), String(used + 64 * 1024 * 1024));
    daemon.send({ hoard: true });
    assert.is((await daemon.exit).signal, 'SIGKILL');
    const exit = await waitFor('the kernel log', () => {
      const found = lastExit(context.path);
      return found?.signal === 'SIGKILL' && found;
    });
    assert.match(exit.reason, 'out of memory');
  } finally {
    await waitFor('the group to be empty', () => {
      rmdirSync(group);
      return true;
    });
  }
});

test('a kernel log line counts only for this pid and during the life of the process', () => {
  const line = (message: string, at = 5_000_000): string => `6,339,${String(at)},-;${message}\n`;
  const killed = 'Out of memory: Killed process 42 (node) total-vm:1kB, anon-rss:1kB, UID:0';
  assert.ok(isKillForMemory(line(killed), 42, 100));
  assert.ok(isKillForMemory(line(`Memory cgroup out${killed.slice(3)}`), 42, 100));
  assert.not.ok(isKillForMemory(line(killed), 4, 100), 'another pid');
  assert.not.ok(isKillForMemory(line(killed), 42, 501), 'an earlier process of that pid');
  assert.not.ok(
    isKillForMemory(line('svc: Out of memory: Killed process 42 (node)'), 42, 100),
    'written by another program',
  );
});

test('a reused pid is not taken for the earlier process', () => {
  const own = identifyProcess(process.pid);
  assert.ok(own);
  assert.ok(isAlive(process.pid, own));
  assert.not.ok(isAlive(process.pid, { ...own, start_ticks: own.start_ticks - 1 }));
  assert.not.ok(isAlive(process.pid, { ...own, boot_id: 'another' }));
});

test('a daemon file whose pid was reused by another process does not prevent a start', async (context) => {
  const first = await start(context);
  first.kill('SIGKILL');
  await first.exit;
  await change(context.path, { pid: process.pid });
  const second = await start(context);
  assert.is((await second.client.status()).pid, second.pid);
});

test.run();
