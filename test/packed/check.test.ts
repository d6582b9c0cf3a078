/** The check of tarballs finds what is wrong with the native files of a Linux package. */
import { cp, mkdtemp, readdir, realpath, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { basename, dirname, join } from 'node:path';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { checkLinuxFiles } from '../../scripts/steps/check-linux.js';
import { addonPath } from '../../src/engine/loader.ts';

const platform = `${process.platform}-${process.arch}`;

/** Copies svc.node and the libraries that it needs, without those that `omit` matches, and checks the copies. */
async function check(omit: RegExp, as = platform) {
  const folder = await mkdtemp(join(tmpdir(), 'svc-native-'));
  try {
    const bin = dirname(addonPath());
    const names = (await readdir(bin)).filter((name) => /^(svc\.node|lib(llama|ggml(\.|-base)).*\.so)$/.test(name));
    const paths = names.filter((name) => !omit.test(name)).map((name) => join(folder, name));
    for (const path of paths) await cp(await realpath(join(bin, basename(path))), path);
    return await checkLinuxFiles(as, paths, new Set());
  } finally {
    await rm(folder, { recursive: true });
  }
}

if (process.platform === 'linux') {
  test('a symbol of Node, of libllama or of ggml that nothing defines is found', async () => {
    const { problems } = await check(/^$/);
    assert.ok(
      problems.some((each) => /^svc\.node needs \d+ symbols that nothing defines: napi_/.test(each)),
      problems.join('\n'),
    );
    const without = await check(/^libggml-base/);
    assert.ok(without.problems.some((each) => /^svc\.node needs libggml-base\.so, which it may not find/.test(each)));
    assert.ok(without.problems.some((each) => /^libllama\..* symbols that nothing defines: gg/.test(each)));
  });

  test('an empty entry of a run path and a foreign processor are found', async () => {
    const other = platform === 'linux-x64' ? 'linux-arm64' : 'linux-x64';
    const { problems } = await check(/^$/, other);
    assert.ok(problems.some((each) => /^svc\.node is for /.test(each)));
    assert.ok(problems.includes('libggml-base.so has the run path $ORIGIN:, not $ORIGIN'), problems.join('\n'));
  });

  test('the newest versions that are needed are reported', async () => {
    const { versions } = await check(/^$/);
    assert.match(versions['GLIBC'] ?? '', /^2\.\d+$/);
    assert.match(versions['GLIBCXX'] ?? '', /^3\.4\.\d+$/);
  });
}

test.run();
