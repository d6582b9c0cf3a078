import { mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { withFileLock } from '../../src/files/file-lock.ts';

const test = suite<{ dir: string }>('file-lock');
test.before.each((context) => {
  context.dir = mkdtempSync(join(tmpdir(), 'svc-lock-'));
});
test.after.each(({ dir }) => rmSync(dir, { recursive: true }));

test('a process that holds two locks in one directory releases both', async ({ dir }) => {
  const held = await withFileLock(join(dir, 'config.lock'), { what: 'the config' }, () =>
    withFileLock(join(dir, 'keys.lock'), { what: 'the keys' }, () => Promise.resolve(readdirSync(dir))),
  );
  assert.equal(held.sort(), ['config.lock', 'keys.lock']);
  assert.equal(readdirSync(dir), []);
});

test.run();
