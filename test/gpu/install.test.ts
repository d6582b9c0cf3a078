/** Installation of a GPU backend from an npm registry: digests, limits, credentials, and that failures leave nothing. */
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { backendsFolder, installedBackend } from '../../src/engine/gpu/installed.ts';
import type { BackendPackage } from '../../src/engine/gpu/packages.ts';
import { installBackend, removeBackends, type InstallEvent } from '../../src/gpu/install.ts';
import { builtinModelPath } from '../../src/models/store/builtin.ts';
import { SvcError } from '../../src/protocol/errors.ts';
import { buildBackend, SOFTWARE_GPU } from '../support/gpu-backends.ts';
import { makeHome, type Home } from '../support/home.ts';
import { NpmRegistry, packageOf, tarball, type TarEntry } from '../support/npm-registry.ts';
import { unless } from '../support/skip.ts';

const FILE = 'bins/linux-x64-vulkan/libggml-vulkan.so';
const CREDENTIAL_TOKEN = 'npm_secret';

interface Context {
  home: Home;
  paths: { readonly dataDir: string; readonly cacheDir: string };
  registry: NpmRegistry | undefined;
  events: InstallEvent[];
  /** Publishes a package with these files, without installing it. */
  publish(entries: readonly TarEntry[]): Promise<BackendPackage>;
  /** Installs it. */
  install(backend: BackendPackage, signal?: AbortSignal, token?: string): Promise<unknown>;
  /** The error of a failed installation; asserts that nothing is left but the partial download. */
  refusal(backend: BackendPackage): Promise<SvcError>;
}
const test = suite<Context>('gpu install');

test.before.each(async (context) => {
  const home = await makeHome();
  const paths = { dataDir: join(home.dir, 'data'), cacheDir: join(home.dir, 'cache') };
  Object.assign(context, { home, paths, registry: undefined, events: [] });
  context.publish = async (entries) => {
    const bytes = tarball(entries);
    const backend = packageOf(bytes, FILE);
    context.registry = await new NpmRegistry(bytes, backend).start();
    return backend;
  };
  context.install = (backend, signal = new AbortController().signal, token) => {
    const { url } = context.registry as NpmRegistry;
    const credential = token === undefined ? undefined : { origin: url.origin, token };
    const registry = { url, credential, cafile: undefined };
    const onEvent = (event: InstallEvent): void => void context.events.push(event);
    return installBackend({ backend, registry, paths, modelPath: builtinModelPath(), signal, onEvent });
  };
  context.refusal = async (backend) => {
    const error = await context.install(backend).then(
      () => undefined,
      (thrown: unknown) => thrown,
    );
    assert.instance(error, SvcError);
    assert.equal(readdirSync(backendsFolder(paths)), []);
    assert.is(installedBackend(backendsFolder(paths), [backend]), null);
    return error as SvcError;
  };
});
test.after.each(async ({ home, registry }) => {
  await registry?.stop();
  await home.remove();
});

const entries = (library: string | Buffer): TarEntry[] => [
  { path: 'package/package.json', content: '{}' },
  { path: 'package/LICENSE', content: 'a licence' },
  { path: 'package/bins/', type: '5' },
  { path: `package/${FILE}`, content: library },
  { path: 'package/bins/linux-x64-vulkan/libggml-base.so', content: 'not needed' },
];

test('a backend that crashes is removed again, with the reason; the download is not kept', async (context) => {
  const library = await buildBackend('crash', context.home.dir);
  if (library === null) return;
  const backend = await context.publish(entries(readFileSync(library)));
  const { code, message, hint } = await context.refusal(backend);
  assert.is(code, 'ENGINE_UNAVAILABLE');
  assert.match(message, /^the Vulkan backend was removed again: .*SIGABRT/);
  assert.ok(hint);
  assert.is(existsSync(join(context.paths.cacheDir, 'backends')), false);
  assert.equal(
    context.events.map(({ type }) => type).filter((type, index, all) => type !== all[index - 1]),
    ['downloading', 'progress', 'proving'],
  );
  const last = context.events.filter((event) => event.type === 'progress').at(-1);
  assert.is(last?.done_bytes, backend.size_bytes);
});

test('a backend without a device is removed again', async (context) => {
  const library = await buildBackend('deviceless', context.home.dir);
  if (library === null) return;
  const { message } = await context.refusal(await context.publish(entries(readFileSync(library))));
  assert.match(message, /removed again: the backend found no device/);
});

test('another digest in the packument is refused before the download', async (context) => {
  const backend = await context.publish(entries('x'));
  const { code, message } = await context.refusal({ ...backend, integrity: `sha512-${'A'.repeat(86)}==` });
  assert.is(code, 'DOWNLOAD_FAILED');
  assert.match(message, /not the package that svc was built with \(digest mismatch\)/);
  assert.is(context.registry?.seen.length, 1);
});

test('other bytes than those of the digest are refused and discarded', async (context) => {
  const backend = await context.publish(entries('x'));
  const { code, message } = await context.refusal({ ...backend, digest: `sha256:${'0'.repeat(64)}` });
  assert.is(code, 'DOWNLOAD_FAILED');
  assert.match(message, /^SHA-256 mismatch/);
});

const HARMFUL: Readonly<Record<string, { readonly entry: TarEntry; readonly says: RegExp }>> = {
  'a path above the package': { entry: { path: 'package/../../evil', content: 'x' }, says: /outside the package/ },
  'an absolute path': { entry: { path: '/etc/evil', content: 'x' }, says: /outside the package/ },
  'a symbolic link': { entry: { path: 'package/link', type: '2' }, says: /neither a file nor a directory/ },
  'a hard link': { entry: { path: 'package/link', type: '1' }, says: /neither a file nor a directory/ },
  'a device': { entry: { path: 'package/null', type: '3' }, says: /neither a file nor a directory/ },
  'a size beyond the limit': { entry: { path: 'package/big', size: 2 ** 31 }, says: /more than 1073741824 bytes/ },
  'a size beyond its end': { entry: { path: 'package/big', size: 2 ** 20 }, says: /its end is missing/ },
};

for (const [what, { entry, says }] of Object.entries(HARMFUL)) {
  test(`a package with ${what} is refused`, async (context) => {
    const { code, message } = await context.refusal(await context.publish([...entries('x').slice(0, 3), entry]));
    assert.is(code, 'INPUT_INVALID');
    assert.match(message, says);
    assert.is(existsSync(join(context.home.dir, 'evil')), false);
    assert.is(existsSync(join(context.paths.cacheDir, 'backends')), false);
    assert.is(existsSync(join(context.paths.cacheDir, 'backends')), false);
  });
}

test('a package with too many entries, and one without the backend, are refused', async (context) => {
  const many = Array.from({ length: 1001 }, (_, index) => ({ path: `package/${String(index)}` }));
  assert.match((await context.refusal(await context.publish(many))).message, /more than 1000 entries/);
  await context.registry?.stop();
  const without = await context.publish(entries('x').slice(0, 3));
  assert.match((await context.refusal(without)).message, /no file bins\/linux-x64-vulkan\/libggml-vulkan\.so/);
});

test('a registry without the package, or without its version, or that sends no packument', async (context) => {
  const backend = await context.publish(entries('x'));
  assert.match((await context.refusal({ ...backend, name: '@other/none' })).message, /has no package @other\/none$/);
  assert.match((await context.refusal({ ...backend, version: '9.9.9' })).message, /has no version 9\.9\.9/);
  const { registry } = context;
  if (registry !== undefined) registry.change = () => ({ versions: 1 });
  assert.match((await context.refusal(backend)).message, /is not a packument/);
});

test('a registry that wants a credential gets it, and another server does not', async (context) => {
  const backend = await context.publish(entries('x'));
  const registry = context.registry as NpmRegistry;
  registry.authorization = `Bearer ${CREDENTIAL_TOKEN}`;
  const refused = await context.refusal(backend);
  assert.is(refused.code, 'PROVIDER_AUTH');
  const elsewhere = await new NpmRegistry(Buffer.alloc(0), backend).start();
  registry.change = (packument) => {
    const text = JSON.stringify(packument).replaceAll(registry.url.origin, elsewhere.url.origin);
    return JSON.parse(text) as object;
  };
  elsewhere.onTarball = (_, response) => {
    response.writeHead(404).end();
    return true;
  };
  const error = await context.install(backend, undefined, CREDENTIAL_TOKEN).catch((thrown: unknown) => thrown);
  assert.match((error as SvcError).message, /status 404/);
  assert.is(registry.seen.at(-1)?.headers.authorization, `Bearer ${CREDENTIAL_TOKEN}`);
  assert.ok(elsewhere.seen.length > 0);
  for (const { headers } of elsewhere.seen) assert.is(headers.authorization, undefined);
  assert.not.match(String(error), CREDENTIAL_TOKEN);
  await elsewhere.stop();
});

test('an interrupted download is kept, and resumed by the next attempt', async (context) => {
  const library = await buildBackend('deviceless', context.home.dir);
  if (library === null) return;
  const backend = await context.publish(entries(readFileSync(library)));
  const registry = context.registry as NpmRegistry;
  const cancelled = new AbortController();
  const reason = new SvcError('CANCELLED', 'cancelled');
  registry.onTarball = (_, response) => {
    const half = Math.floor(backend.size_bytes / 2);
    const range = `bytes 0-${String(backend.size_bytes - 1)}/${String(backend.size_bytes)}`;
    response.writeHead(206, { 'content-range': range, 'content-length': backend.size_bytes });
    response.write(Buffer.alloc(half), () => cancelled.abort(reason));
    return true;
  };
  const error = await context.install(backend, cancelled.signal).catch((thrown: unknown) => thrown);
  assert.is(error, reason);
  assert.equal(readdirSync(backendsFolder(context.paths)), []);
  registry.onTarball = () => false;
  assert.match((await context.refusal(backend)).message, /found no device/);
});

unless(SOFTWARE_GPU === null ? 'no software driver is installed' : undefined, test)(
  'a backend whose tokens are those of the processor is installed; engines find it; it can be removed',
  async (context) => {
    const { GGML_BACKEND_PATH: module = '', ...env } = SOFTWARE_GPU ?? {};
    const backend = await context.publish(entries(readFileSync(module)));
    Object.assign(process.env, env);
    try {
      await context.install(backend);
    } finally {
      for (const name of Object.keys(env)) Reflect.deleteProperty(process.env, name);
    }
    const folder = backendsFolder(context.paths);
    const installed = installedBackend(folder, [backend]);
    assert.equal(readdirSync(installed?.folder ?? '').sort(), ['LICENSE', 'libggml-vulkan.so', 'proof.json']);
    assert.ok(readFileSync(installed?.module ?? '').equals(readFileSync(module)));
    assert.is(installed?.proof?.device, 'Vulkan0');
    assert.ok((installed?.proof?.tokens_per_second ?? 0) > 0);
    assert.equal(readdirSync(folder), [backend.digest.replace(':', '-')]);
    const bad = await context.install({ ...backend, integrity: 'sha512-other' }).catch((thrown: unknown) => thrown);
    assert.instance(bad, SvcError);
    assert.ok(installedBackend(folder, [backend]), 'a failed installation keeps the proven backend');
    assert.is(await removeBackends(context.paths), 1);
    assert.is(installedBackend(folder, [backend]), null);
    assert.is(await removeBackends(context.paths), 0);
  },
);

test.run();
