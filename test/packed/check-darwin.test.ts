/** The check of tarballs finds what is wrong with the native files of a macOS package, on every platform. */
import { spawnSync } from 'node:child_process';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { checkDarwinFiles, checkMetal } from '../../scripts/steps/check-darwin.js';
import { machO, type Library } from './mach-o.ts';

const NODE = new Set(['napi_create_object']);
const METAL = '/System/Library/Frameworks/Metal.framework/Versions/A/Metal';
const GGML = 'libggml-base.dylib';
/** An addon, the library that it needs, and the backend for Metal. */
const PACKAGE = {
  'svc.node': {
    needed: [`@rpath/${GGML}`, '/usr/lib/libc++.1.dylib'],
    undefined: [
      ['_ggml_free', 0],
      ['__ZNSt3__15mutex4lockEv', 1],
      ['_napi_create_object', -1],
    ],
    defined: ['_napi_register_module_v1'],
  },
  [GGML]: { defined: ['_ggml_free', '_ggml_init'] },
  'libggml-metal.so': { needed: [METAL, `@loader_path/${GGML}`], section: '__ggml_metallib' },
} satisfies Record<string, Partial<Library>>;

/** Writes the package, with these properties of its files instead, and calls `check` with the paths. */
async function withFiles<T>(changes: Record<string, Partial<Library> | null>, check: (paths: string[]) => Promise<T>) {
  const folder = await mkdtemp(join(tmpdir(), 'svc-darwin-'));
  try {
    const paths: string[] = [];
    for (const [name, library] of Object.entries<Partial<Library>>(PACKAGE)) {
      if (changes[name] === null) continue;
      paths.push(join(folder, name));
      await writeFile(join(folder, name), machO({ ...library, ...changes[name] }));
    }
    return await check(paths);
  } finally {
    await rm(folder, { recursive: true });
  }
}

async function problemsOf(changes: Record<string, Partial<Library> | null>): Promise<readonly string[]> {
  return (await withFiles(changes, (paths) => checkDarwinFiles(paths, NODE, '14.0'))).problems;
}

const metalProblems = (changes: Record<string, Partial<Library> | null>) => withFiles(changes, checkMetal);

const tool = process.platform === 'darwin' ? 'otool' : 'llvm-objdump';
if (spawnSync(tool, ['--version']).error !== undefined) {
  test('without the tools the check says what to install', async () => {
    const message = await problemsOf({}).then(String, (error: unknown) => (error as Error).message);
    assert.match(message, /is not installed; the check of a macOS package needs it\. Install /);
  });
} else {
  test('a package in which everything is found has no problems', async () => {
    const { problems, versions } = await withFiles({}, (paths) => checkDarwinFiles(paths, NODE, '14.0'));
    assert.equal(problems, []);
    assert.equal(versions, { macOS: '14.0' });
    assert.equal(await metalProblems({}), []);
  });

  test('a library that is missing, and its symbols, are found', async () => {
    assert.equal(await problemsOf({ [GGML]: null }), [
      `svc.node needs @rpath/${GGML}, which it may not find`,
      'svc.node needs 1 symbols that nothing defines: _ggml_free of libggml-base, …',
      `libggml-metal.so needs @loader_path/${GGML}, which it may not find`,
    ]);
    const needed = [`@rpath/${GGML}`, '/opt/homebrew/lib/libomp.dylib', '/usr/lib/libc++.1.dylib'];
    const others = { needed, undefined: [['_omp_get_num_threads', 1]] } as const;
    assert.equal(await problemsOf({ 'svc.node': others }), [
      'svc.node needs /opt/homebrew/lib/libomp.dylib, which it may not find',
      'svc.node needs 1 symbols that nothing defines: _omp_get_num_threads of libomp, …',
    ]);
  });

  test('a symbol that its library does not export, or that is not of Node, is found', async () => {
    const [problem] = await problemsOf({ [GGML]: { defined: ['_ggml_init'] } });
    assert.is(problem, 'svc.node needs 1 symbols that nothing defines: _ggml_free of libggml-base, …');
    assert.equal(await problemsOf({ 'svc.node': { defined: [] } }), [
      'svc.node does not export _napi_register_module_v1',
    ]);
    // -undefined dynamic_lookup lets the linker accept everything.
    assert.equal(await problemsOf({ 'svc.node': { undefined: [['_ggml_free', -1]] } }), [
      'svc.node needs 1 symbols that nothing defines: _ggml_free, …',
    ]);
  });

  test('a foreign processor, a newer system, a run path of the build and a missing signature are found', async () => {
    assert.equal(await problemsOf({ [GGML]: { ...PACKAGE[GGML], machine: 'x64' } }), [`${GGML} is for X86_64`]);
    assert.equal(await problemsOf({ 'svc.node': { minimum: '15.1' } }), [
      'svc.node needs macOS 15.1, which is newer than 14.0',
    ]);
    assert.equal(await problemsOf({ 'svc.node': { minimum: null } }), ['svc.node does not state its oldest macOS']);
    assert.equal(await problemsOf({ 'svc.node': { signed: false } }), ['svc.node has no code signature']);
    const runPaths = ['@loader_path', '/builds/svc/bin'];
    assert.equal(await problemsOf({ 'svc.node': { runPaths } }), [
      'svc.node has the run paths @loader_path, /builds/svc/bin, not @loader_path',
    ]);
    assert.equal(await problemsOf({ 'svc.node': { runPaths: [] } }), [
      'svc.node has the run paths (none), not @loader_path',
    ]);
    assert.equal(await problemsOf({ [GGML]: { ...PACKAGE[GGML], runPaths: [] } }), []);
  });

  test("Metal's backend must be there, with its kernels", async () => {
    assert.equal(await metalProblems({ 'libggml-metal.so': null }), ['libggml-metal is missing']);
    assert.equal(await metalProblems({ 'libggml-metal.so': { section: '__data' } }), [
      'libggml-metal has no kernels in it: build with GGML_METAL_EMBED_LIBRARY',
    ]);
    assert.equal(await metalProblems({ 'libggml-metal.so': { needed: [], runPaths: [] } }), [
      'libggml-metal does not need Metal.framework',
    ]);
  });
}

test.run();
