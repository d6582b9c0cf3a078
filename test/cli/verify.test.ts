/** `svc model verify` on the command line. */
import { open, readdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import * as assert from 'uvu/assert';
import type { ModelRecord } from '../../src/protocol/records.ts';
import { assertExit } from '../support/exit.ts';
import { svcSuite } from '../support/svc-suite.ts';

const TINY = fileURLToPath(new URL('../../build/models/tiny-llama.gguf', import.meta.url));

const test = svcSuite('svc model verify');

test('prints a line per model, and the exit code shows whether all are intact', async ({ run }) => {
  const added = await run('model', 'add', TINY, '--copy', '--name', 'mine', '--json');
  const { path } = JSON.parse(added.stdout) as ModelRecord;
  const fine = await run('model', 'verify');
  assertExit(fine, 0);
  assert.match(fine.stdout, /^mine: ok \([\d.]+ MB\)\nbuiltin: ok \([\d.]+ MB\)\n$/);

  const file = await open(path, 'r+');
  await file.write(Buffer.from('damage'), 0, 6, 100_000);
  await file.close();
  const damaged = await run('model', 'verify', 'mine');
  assertExit(damaged, 65);
  assert.ok(
    damaged.stdout.startsWith(`mine: damaged\n  ${path} has changed (SHA-256 mismatch): its digest is sha256:`),
    damaged.stdout,
  );
  assert.match(damaged.stdout, /svc model rm --yes mine/);
  assert.match(damaged.stderr, /1 of 1 models are damaged/);
  const shown = await run('model', 'show', 'mine', '--json');
  assert.is((JSON.parse(shown.stdout) as ModelRecord).state, 'failed');
  assert.is((await readdir(join(path, '..'))).length, 1, 'a damaged file stays');
});

test('--json prints lines, the last of which is the summary', async ({ run }) => {
  await run('model', 'add', TINY, '--copy', '--name', 'mine');
  const { code, stdout } = await run('model', 'verify', '--all', '--json');
  assert.is(code, 0);
  const events = stdout
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line) as { type: string; model?: string; state?: string });
  assert.equal(
    events.filter(({ type }) => type === 'verified').map(({ model, state }) => [model, state]),
    [
      ['mine', 'ok'],
      ['builtin', 'ok'],
    ],
  );
  assert.equal(events.at(-1), {
    type: 'finished',
    verified: 2,
    damaged: [],
    leftovers: { removed: [], freed_bytes: 0, kept: [] },
  });
});

test('a file that belongs to no model is reported and not deleted at once', async ({ run }) => {
  const added = await run('model', 'add', TINY, '--copy', '--name', 'mine', '--json');
  const { path } = JSON.parse(added.stdout) as ModelRecord;
  const stray = join(path, '..', `sha256-${'a'.repeat(64)}`);
  await writeFile(stray, 'x');
  const { code, stderr } = await run('model', 'verify');
  assert.is(code, 0);
  assert.match(stderr, /sha256-a+ \(1 B\) belongs to no model; the first `svc model verify` after .* removes it/);
  assert.ok((await readdir(join(path, '..'))).includes(`sha256-${'a'.repeat(64)}`));
});

test('a name together with --all, and an unknown name, are refused', async ({ run }) => {
  assertExit(await run('model', 'verify', 'builtin', '--all'), 2);
  const unknown = await run('model', 'verify', 'nothing', '--json');
  assertExit(unknown, 1);
  assert.is((JSON.parse(unknown.stderr) as { error: { code: string } }).error.code, 'MODEL_NOT_FOUND');
});

test.run();
