import { mkdirSync, rmSync, statSync, utimesSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { readDaemonFile } from '../../src/home/daemon-file.ts';
import { OwnDaemonFile } from '../../src/daemon/daemon-file.ts';
import { createLogger } from '../../src/log/log.ts';
import { makeHome, type Home } from '../support/home.ts';

interface Context {
  home: Home;
  path: string;
  file: OwnDaemonFile;
}
const test = suite<Context>('daemon-file');
test.before.each(async (context) => {
  context.home = await makeHome();
  context.path = join(context.home.dir, 'state', 'daemon.json');
  mkdirSync(join(context.path, '..'));
  context.file = new OwnDaemonFile(context.path, createLogger({ level: 'silent' }));
  const addresses = { http: '127.0.0.1:1', grpc: '127.0.0.1:2', ollama: null, socket: '/s', log_path: '/l' };
  const started_at = new Date().toISOString();
  await context.file.begin({ pid: process.pid, mode: 'foreground', version: '1', started_at, ...addresses });
});
test.after.each(({ home }) => home.remove());

test('a sign of life updates the modification time of the file', async ({ path, file }) => {
  utimesSync(path, new Date(0), new Date(0));
  await file.touch();
  assert.ok(Date.now() - statSync(path).mtimeMs < 60_000);
});

test('a removed or damaged file, or a removed directory, is written again with the next sign of life', async ({
  path,
  file,
}) => {
  const written = readDaemonFile(path);
  assert.is(written?.pid, process.pid);
  for (const spoil of [
    () => rmSync(path),
    () => writeFileSync(path, '{"pid": 1'),
    () => writeFileSync(path, '{}'),
    () => rmSync(join(path, '..'), { recursive: true }),
  ]) {
    spoil();
    assert.is(readDaemonFile(path), null);
    await file.touch();
    assert.equal(readDaemonFile(path), written);
  }
});

test.run();
