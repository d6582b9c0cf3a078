/** The check of tarballs finds a library of an earlier build, and a manifest that is not the repository's. */
import { cp, mkdir, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { checkTarball } from '../../scripts/steps/check-package.js';
import { readElf } from '../../scripts/steps/elf.js';
import { pack, writeJson } from '../../scripts/steps/pack.js';
import { StepError } from '../../scripts/steps/run.js';
import { addonPath } from '../../src/engine/loader.ts';

const ADDON = join(dirname(addonPath()), 'process.node');
const NAMES = ['libllama.v0.4.0.so', 'libllama.v0.5.0.so', 'libllama-common.so', 'libggml.v0.5.0.so'];

const test = suite<{ dir: string }>('check of a package');
test.before.each(async (context) => {
  context.dir = await mkdtemp(join(tmpdir(), 'svc-check-'));
});
test.after.each(({ dir }) => rm(dir, { recursive: true }));

if (process.platform === 'linux') {
  test('two files of a library, none of another, and other engines are found', async ({ dir }) => {
    await mkdir(join(dir, 'bin'));
    for (const name of NAMES) await cp(ADDON, join(dir, 'bin', name));
    const name = `svc-runtime-linux-${process.arch}`;
    await writeJson(join(dir, 'package.json'), { name, version: '0.0.1', engines: { node: '>=18' } });
    const error = await checkTarball(await pack(dir, dir)).catch((reason: unknown) => reason);
    assert.instance(error, StepError);
    const problems = (error as Error).message.split('\n').map((line) => line.trim());
    assert.ok(problems.includes('engines {"node":">=18"}'));
    assert.ok(problems.includes('2 files of llama: bin/libllama.v0.4.0.so, bin/libllama.v0.5.0.so'));
    assert.equal(problems.filter((line) => / files of /.test(line)).length, 2, 'ggml-base has none');
  });

  test('without readelf the check says what it needs', async () => {
    const { PATH } = process.env;
    process.env['PATH'] = '';
    const error = await readElf(ADDON).catch((reason: unknown) => reason);
    process.env['PATH'] = PATH;
    assert.instance(error, StepError);
    assert.match((error as Error).message, '`readelf` (binutils) is not installed');
  });
}

test.run();
