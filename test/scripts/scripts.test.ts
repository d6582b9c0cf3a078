/** Scripts as they are called: through a link, and for a platform that has no package. */
import { execFile } from 'node:child_process';
import { mkdtemp, rm, symlink } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { makeExecutables } from '../../scripts/steps/executable.js';
import { platformNamed } from '../../scripts/steps/platforms.js';
import { StepError } from '../../scripts/steps/run.js';

const ROOT = join(import.meta.dirname, '..', '..');
const test = suite('scripts');

test('a script runs through a symbolic link, too', async () => {
  const dir = await mkdtemp(join(tmpdir(), 'svc-scripts-'));
  try {
    await symlink(ROOT, join(dir, 'link'));
    const script = join(dir, 'link', 'scripts', 'build.js');
    const call = promisify(execFile)(process.execPath, [script, '--nonsense']);
    const error = (await call.catch((reason: unknown) => reason)) as { code?: number; stderr: string };
    assert.is(error.code, 1);
    assert.match(error.stderr, "Unknown option '--nonsense'");
  } finally {
    await rm(dir, { recursive: true });
  }
});

test('a platform is named as Node or its package names it; another one is an error of one line', async () => {
  assert.is(platformNamed('linux-x64'), 'linux-x64');
  assert.is(platformNamed('svc-runtime-linux-arm64'), 'linux-arm64');
  for (const name of ['linux-riscv64', 'constructor']) {
    const error = await makeExecutables(name).catch((reason: unknown) => reason);
    assert.instance(error, StepError);
    assert.match((error as Error).message, `there is no package for ${name}, only for linux-x64, `);
  }
});

test.run();
