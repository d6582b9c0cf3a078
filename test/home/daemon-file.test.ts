import { mkdtempSync, rmSync, statSync, utimesSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { readDaemonFile, writeDaemonFile, type DaemonFile } from '../../src/home/daemon-file.ts';
import { lastExit } from '../../src/home/last-exit.ts';

const scratch = mkdtempSync(join(tmpdir(), 'svc-daemon-file-'));
const path = join(scratch, 'daemon.json');
test.after(() => {
  rmSync(scratch, { recursive: true, force: true });
});

const running: DaemonFile = {
  pid: 1,
  mode: 'foreground',
  version: '0.1.0',
  http: '127.0.0.1:7117',
  grpc: null,
  ollama: '127.0.0.1:11434',
  socket: '/run/svc.sock',
  log_path: '/log',
  started_at: '2026-01-01T00:00:00.000Z',
  exit: null,
  last_exit: null,
};

test('without an earlier daemon there is no record', () => {
  assert.is(readDaemonFile(path), null);
  assert.is(lastExit(path), null);
});

test('a written record can be read, with access for its owner only', async () => {
  await writeDaemonFile(path, running);
  assert.equal(readDaemonFile(path), running);
  assert.is(statSync(path).mode & 0o777, 0o600);
});

test('the file of an older daemon has no address for Ollama’s clients', async () => {
  const { ollama: _, ...older } = running;
  writeFileSync(path, JSON.stringify(older));
  assert.equal(readDaemonFile(path), { ...running, ollama: null });
});

test('the exit that a daemon recorded is reported', async () => {
  const exit = { code: 0, signal: 'SIGTERM', at: '2026-01-02T00:00:00.000Z', reason: 'SIGTERM' };
  await writeDaemonFile(path, { ...running, exit });
  assert.equal(lastExit(path), exit);
});

test('a daemon that recorded no exit crashed, and was last alive at the time of the file', async () => {
  await writeDaemonFile(path, running);
  utimesSync(path, 1_800_000_000, 1_800_000_000);
  const exit = lastExit(path);
  assert.is(exit?.code, null);
  assert.is(exit?.signal, null);
  assert.is(exit?.at, new Date(1_800_000_000_000).toISOString());
  assert.match(exit?.reason ?? '', 'crash');
});

test('a file that is not a valid record counts as missing', () => {
  for (const text of ['', '{', '{}', 'null', '{"pid":"1"}']) {
    writeFileSync(path, text);
    assert.is(readDaemonFile(path), null);
    assert.is(lastExit(path), null);
  }
});

test.run();
