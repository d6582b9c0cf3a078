/** checkWindowsFiles reports errors in the native files of a Windows package. These tests run on every platform. */
import { spawnSync } from 'node:child_process';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { checkWindowsFiles } from '../../scripts/steps/check-windows.js';
import { unless } from '../support/skip.ts';
import { windowsLibrary, type WindowsLibrary } from './pe.ts';

const PACKAGE = {
  'svc.node': {
    imports: { 'ggml-base.dll': ['ggml_free'], 'KERNEL32.dll': ['Sleep'], 'libstdc++-6.dll': ['_Znwm'] },
    exports: ['napi_register_module_v1'],
  },
  'ggml-base.dll': { imports: { 'msvcrt.dll': ['malloc'] }, exports: ['ggml_free', 'ggml_init'] },
  'libstdc++-6.dll': { exports: ['_Znwm'] },
} satisfies Record<string, Partial<WindowsLibrary>>;

/** Problems of the package with these properties of its files instead; null: without the file. */
async function problemsOf(changes: Record<string, Partial<WindowsLibrary> | null>): Promise<readonly string[]> {
  const folder = await mkdtemp(join(tmpdir(), 'svc-windows-'));
  try {
    const paths: string[] = [];
    for (const [name, library] of Object.entries<Partial<WindowsLibrary>>(PACKAGE)) {
      if (changes[name] === null) continue;
      paths.push(join(folder, name));
      await writeFile(join(folder, name), windowsLibrary({ ...library, ...changes[name] }));
    }
    return await checkWindowsFiles(paths);
  } finally {
    await rm(folder, { recursive: true });
  }
}

const test = suite('check of a Windows package');
const isMissing = spawnSync('llvm-readobj', ['--version']).error !== undefined;
const checked = unless(isMissing ? 'llvm-readobj is not installed' : undefined, test);

checked('a package that is right', async () => {
  assert.equal(await problemsOf({}), []);
});

checked('libraries and symbols that are missing', async () => {
  assert.equal(await problemsOf({ 'libstdc++-6.dll': null }), [
    'svc.node needs libstdc++-6.dll, which it may not find',
  ]);
  assert.equal(await problemsOf({ 'ggml-base.dll': { exports: ['ggml_init'] } }), [
    'svc.node needs 1 symbols that ggml-base.dll lacks: ggml_free, …',
  ]);
  // The program is svc.exe in the single executable: Node-API's functions must not be bound to node.exe.
  assert.equal(await problemsOf({ 'svc.node': { imports: { 'node.exe': ['napi_create_object'] } } }), [
    'svc.node needs node.exe, which it may not find',
  ]);
});

checked('another processor', async () => {
  assert.equal(await problemsOf({ 'svc.node': { machine: 0xaa64 } }), ['svc.node is for IMAGE_FILE_MACHINE_ARM64']);
});

test.run();
