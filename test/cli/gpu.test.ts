/** `svc gpu` as a user runs it, and how engines find what it has installed. */
import { copyFileSync, mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { backendFolder, backendsFolder, proofFile } from '../../src/engine/gpu/installed.ts';
import { findLibrary } from '../../src/engine/gpu/libraries.ts';
import { BACKEND_PACKAGES, type BackendPackage } from '../../src/engine/gpu/packages.ts';
import { examineGpu } from '../../src/engine/gpu.ts';
import { variable } from '../../src/process/environment.ts';
import { assertExit } from '../support/exit.ts';
import { SOFTWARE_GPU } from '../support/gpu-backends.ts';
import { makeHome, type Home } from '../support/home.ts';
import { NpmRegistry } from '../support/npm-registry.ts';
import { unless } from '../support/skip.ts';
import { svc } from '../support/svc.ts';

const test = suite<{ home: Home }>('svc gpu');
test.before.each(async (context) => {
  context.home = await makeHome();
});
test.after.each(async ({ home }) => {
  await home.remove();
});

const VULKAN = BACKEND_PACKAGES.find(({ kind }) => kind === 'vulkan') as BackendPackage;
const isHere = process.platform === 'linux' && process.arch === 'x64';

/** Puts a library where `svc gpu install` puts a proven one. */
function plant(home: Home, library: string | null, backend: Pick<BackendPackage, 'digest'> = VULKAN): string {
  const folder = backendFolder(backendsFolder({ dataDir: join(home.dir, 'data') }), backend);
  mkdirSync(folder, { recursive: true });
  const module = join(folder, 'libggml-vulkan.so');
  if (library === null) writeFileSync(module, '');
  else copyFileSync(library, module);
  const proof = { device: 'Vulkan0', tokens_per_second: 99.6, proven_at: new Date(0).toISOString() };
  writeFileSync(proofFile(folder), JSON.stringify(proof));
  return module;
}

test('list shows cards, the backend that fits and the installed one; rm removes it', async ({ home }) => {
  const before = JSON.parse((await svc(['gpu', 'list', '--json'], { home })).stdout) as Record<string, unknown>;
  assert.equal(Object.keys(before), ['gpus', 'choice', 'installed']);
  assert.is(before['installed'], null);
  assert.ok((before['choice'] as { reason: string }).reason);

  const path = plant(home, null);
  const { installed } = JSON.parse((await svc(['gpu', 'list', '--json'], { home })).stdout) as { installed: unknown };
  const proof = { device: 'Vulkan0', tokens_per_second: 99.6, proven_at: new Date(0).toISOString() };
  const name = `${VULKAN.name}@${VULKAN.version}`;
  assert.equal(installed, { backend: 'vulkan', package: name, path, ...proof });
  const { stdout } = await svc(['gpu', 'list'], { home });
  assert.match(stdout, /^fits: +\w.*: .+$/m);
  assert.match(stdout, /^installed: +Vulkan, 100 tokens\/s on Vulkan0$/m);

  assert.equal(JSON.parse((await svc(['gpu', 'rm', '--json'], { home })).stdout), { removed: 1 });
  const again = await svc(['gpu', 'rm'], { home });
  assert.equal([again.code, again.stdout], [0, 'no GPU backend is installed\n']);
});

unless(isHere && findLibrary('libvulkan.so.1') !== null ? undefined : 'no Vulkan loader is installed', test)(
  "install asks the registry of the user's npm config, and refuses another package under the same name",
  async ({ home }) => {
    const registry = await new NpmRegistry(Buffer.from('x'), { ...VULKAN, integrity: 'sha512-other' }).start();
    const npmrc = join(home.dir, 'npmrc');
    const place = registry.url.href.replace(/^http:/, '');
    writeFileSync(npmrc, `@node-llama-cpp:registry=${registry.url.href}\n${place}:_authToken=secret-token\n`);
    registry.authorization = 'Bearer secret-token';
    const env = { NPM_CONFIG_USERCONFIG: npmrc };
    const { code, stdout, stderr } = await svc(['gpu', 'install', 'vulkan', '--json'], { home, env });
    assert.is(code, 69);
    assert.match(stdout, /^\{"type":"downloading","package":"@node-llama-cpp\/linux-x64-vulkan@/);
    const { error } = JSON.parse(stderr) as { error: { code: string; message: string; hint: string } };
    assert.is(error.code, 'DOWNLOAD_FAILED');
    assert.match(error.message, /is not the package that svc was built with/);
    assert.ok(error.hint);
    assert.not.match(stdout + stderr, 'secret-token');
    await registry.stop();
  },
);

test('install without a usable GPU says why, and exits with 69', async ({ home }) => {
  if (!isHere || findLibrary('libcuda.so.1') !== null) return;
  const { code, stderr } = await svc(['gpu', 'install', 'cuda'], { home });
  assert.is(code, 69);
  assert.match(
    stderr,
    /^svc: no GPU backend can be used: no NVIDIA GPU or driver was found\nhint: .*svc gpu install vulkan\n$/,
  );
  assertExit(await svc(['gpu', 'install', 'metal'], { home }), 2);
});

unless(SOFTWARE_GPU === null ? 'no software driver is installed' : undefined, test)(
  'engines load the installed backend, also without a card on the bus; one of another version is reported',
  async ({ home }) => {
    if (variable('GGML_BACKEND_PATH') !== undefined) return;
    const { GGML_BACKEND_PATH: library = '', ...env } = SOFTWARE_GPU ?? {};
    const variables = { ...env, SVC_HOME: home.dir };
    const before = Object.fromEntries(Object.keys(variables).map((name) => [name, process.env[name]]));
    const root = join(home.dir, 'no-cards');
    Object.assign(process.env, variables);
    try {
      plant(home, null, { digest: `sha256:${'0'.repeat(64)}` });
      const other = await examineGpu({ measure: false, root });
      assert.is(other.trouble?.reason, 'the installed backend is for another version of svc');
      assert.match(other.trouble?.hint ?? '', 'svc gpu install');
      const module = plant(home, library);
      const found = await examineGpu({ measure: false, root });
      assert.equal([found.module, found.trouble], [module, null]);
    } finally {
      for (const [name, value] of Object.entries(before)) {
        if (value === undefined) Reflect.deleteProperty(process.env, name);
        else process.env[name] = value;
      }
    }
  },
);

test.run();
