/**
 * What a user gets: the package as npm packs it, installed from a registry where there is no compiler, no CMake, no
 * git and no Python, with an empty home. It answers a prompt, and every file it runs is its own.
 */
import { execFile } from 'node:child_process';
import { mkdir, mkdtemp, readdir, readFile, realpath, rm, stat, symlink } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { startRegistry } from './registry.ts';

const MB = 1e6;
const root = join(import.meta.dirname, '..', '..');
const run = promisify(execFile);

interface Manifest {
  readonly name: string;
  readonly version: string;
}
interface Locked {
  readonly version: string;
  readonly integrity?: string;
}
interface Lock {
  readonly packages: Readonly<Record<string, Locked>>;
}

interface World {
  dir: string;
  tarball: string;
  env: Record<string, string>;
}
const world: World = { dir: '', tarball: '', env: {} };

test.before(async () => {
  world.dir = await mkdtemp(join(tmpdir(), 'svc-'));
  const { stdout } = await run(process.execPath, [join(root, 'scripts', 'pack.js'), world.dir], { cwd: root });
  world.tarball = stdout.trim();
  world.env = await bareEnvironment(world.dir);
  const upstream = (await run('npm', ['config', 'get', 'registry'])).stdout.trim();
  const manifest = JSON.parse(await readFile(join(root, 'package.json'), 'utf8')) as Manifest;
  const registry = await startRegistry(world.tarball, manifest, upstream);
  const where = ['--prefix', join(world.dir, 'prefix'), '--registry', registry.url];
  await run('npm', ['install', '--global', ...where, manifest.name], { env: world.env, cwd: world.dir });
  registry.close();
});

test.after(async () => {
  await svc('stop', '--force').catch(() => undefined);
  await rm(world.dir, { recursive: true, force: true, maxRetries: 3 });
});

test('the bare environment is bare', async () => {
  assert.equal((await readdir(join(world.dir, 'path'))).sort(), ['node', 'npm', 'sh']);
  for (const tool of ['cmake', 'git', 'g++', 'python3', 'make']) {
    const error = await run(tool, ['--version'], { env: world.env }).catch((reason: unknown) => reason);
    assert.is((error as NodeJS.ErrnoException).code, 'ENOENT', tool);
  }
});

test('doctor finds nothing wrong', async () => {
  const { ok, checks } = await json('doctor', '--json');
  assert.equal(
    checks.filter(({ status }: { status: string }) => status === 'fail'),
    [],
  );
  assert.is(ok, true);
});

test('run answers, with the addon of the package', async () => {
  const answer = await json('run', '--json', '--max-tokens', '8', '--seed', '1', 'Hello');
  assert.ok(answer.text.length > 0);
  assert.ok(answer.usage.output_tokens > 0);
  const { addon } = await json('version', '--json');
  const prefix = await realpath(join(world.dir, 'prefix'));
  assert.ok(addon.path.startsWith(join(prefix, 'lib', 'node_modules', 'svc-runtime', 'prebuilds')), addon.path);
});

test('the man page is where man finds it', async () => {
  const page = await readFile(join(world.dir, 'prefix', 'share', 'man', 'man1', 'svc.1'), 'utf8');
  assert.match(page, /^\.SH NAME\nsvc /m);
});

test('stop leaves nothing running', async () => {
  await svc('stop');
  const status = await svc('status', '--json').catch((error: unknown) => error as { code: number });
  assert.is('code' in status ? status.code : 0, 3);
});

test('the package holds no source, no test and no build tool', async () => {
  const installed = join(world.dir, 'prefix', 'lib', 'node_modules', 'svc-runtime');
  const files = (await readdir(installed)).sort();
  const expected = [
    'CHANGELOG.md',
    'LICENSE',
    'README.md',
    'THIRD_PARTY_NOTICES.md',
    'bin',
    'dist',
    'models',
    'node_modules',
    'npm-shrinkwrap.json',
  ];
  assert.equal(files, [...expected, 'package.json', 'prebuilds', 'proto', 'providers']);
  const [platform = ''] = await readdir(join(installed, 'prebuilds'));
  const native = await readdir(join(installed, 'prebuilds', platform));
  assert.ok(native.includes('THIRD_PARTY_NOTICES.md'));
  assert.ok(native.some((name) => name.startsWith('libggml-cpu')));
});

test('what is installed beside it is what the lock file says, to the version', async () => {
  const installed = join(world.dir, 'prefix', 'lib', 'node_modules', 'svc-runtime');
  const lock = JSON.parse(await readFile(join(root, 'package-lock.json'), 'utf8')) as Lock;
  const shrunk = JSON.parse(await readFile(join(installed, 'npm-shrinkwrap.json'), 'utf8')) as Lock;
  const names = Object.keys(shrunk.packages).filter((name) => name !== '');
  assert.ok(names.length > 50, `${String(names.length)} packages`);
  for (const name of names) {
    assert.equal(shrunk.packages[name], lock.packages[name], name);
    assert.type(shrunk.packages[name]?.integrity, 'string', name);
    const { version } = JSON.parse(await readFile(join(installed, name, 'package.json'), 'utf8')) as Locked;
    assert.is(version, lock.packages[name]?.version, name);
  }
  const present = (await readdir(join(installed, 'node_modules'), { recursive: true }))
    .filter((path) => /(^|node_modules\/)(@[^/]+\/)?[^@/]+\/package\.json$/.test(path))
    .map((path) => `node_modules/${path.slice(0, -'/package.json'.length)}`);
  assert.equal(
    present.filter((name) => !names.includes(name)),
    [],
  );
});

test('the README tells its true size', async () => {
  const packed = (await stat(world.tarball)).size / MB;
  const installed = (await sizeOf(join(world.dir, 'prefix'))) / MB;
  const [, saysPacked, saysInstalled] =
    /(\d+) MB packed, (\d+) MB installed/.exec(await readFile(join(root, 'README.md'), 'utf8')) ?? [];
  const figures = `${packed.toFixed(1)} MB packed, ${installed.toFixed(1)} MB installed`;
  assert.ok(packed < 25, figures);
  assert.ok(Math.abs(Number(saysPacked) - packed) <= 1, figures);
  assert.ok(Math.abs(Number(saysInstalled) - installed) <= 3, figures);
});

test.run();

/** Node, npm and the shell in which npm runs a dependency's script, and nothing else; npm reaches its registry in the way it does here. */
async function bareEnvironment(dir: string): Promise<Record<string, string>> {
  const [path, home] = [join(dir, 'path'), join(dir, 'home')];
  await Promise.all([path, home].map((folder) => mkdir(folder)));
  await symlink(process.execPath, join(path, 'node'));
  await symlink('/bin/sh', join(path, 'sh'));
  await symlink(await realpath((await run('which', ['npm'])).stdout.trim()), join(path, 'npm'));
  const npmConfig = async (key: string): Promise<string> => (await run('npm', ['config', 'get', key])).stdout.trim();
  const kept = ['NODE_EXTRA_CA_CERTS', 'HTTP_PROXY', 'HTTPS_PROXY', 'NO_PROXY', 'SVC_TEST_FILE_RUN'];
  return {
    ...Object.fromEntries(kept.flatMap((name) => (process.env[name] === undefined ? [] : [[name, process.env[name]]]))),
    PATH: path,
    HOME: home,
    TMPDIR: tmpdir(),
    SVC_HOME: join(dir, 'svc'),
    SVC_HTTP_ADDR: '127.0.0.1:0',
    SVC_GRPC_ADDR: '127.0.0.1:0',
    npm_config_userconfig: await npmConfig('userconfig'),
    npm_config_globalconfig: await npmConfig('globalconfig'),
    npm_config_cache: join(dir, 'cache'),
  };
}

function svc(...args: string[]): Promise<{ stdout: string }> {
  const done = run(join(world.dir, 'prefix', 'bin', 'svc'), args, { env: world.env, cwd: world.dir, timeout: 180_000 });
  // A pipe that stays open would be read to its end as part of the prompt.
  done.child.stdin?.end();
  return done;
}

async function json(...args: string[]): Promise<any> {
  return JSON.parse((await svc(...args)).stdout);
}

async function sizeOf(path: string): Promise<number> {
  const found = await stat(path);
  if (!found.isDirectory()) return found.size;
  const sizes = await Promise.all((await readdir(path)).map((name) => sizeOf(join(path, name))));
  return sizes.reduce((total, size) => total + size, 0);
}
