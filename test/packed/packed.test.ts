/**
 * The npm package as a user gets it: packed, then installed from a registry into an empty home on a system without
 * compiler, CMake, git and Python. It must answer a prompt and run only its own files.
 */
import { execFile } from 'node:child_process';
import { existsSync } from 'node:fs';
import { mkdir, mkdtemp, readdir, readFile, realpath, rm, stat, symlink, writeFile } from 'node:fs/promises';
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

test('the test environment has no build tools', async () => {
  assert.equal((await readdir(join(world.dir, 'path'))).sort(), ['node', 'npm', 'sh']);
  for (const tool of ['cmake', 'git', 'g++', 'python3', 'make']) {
    const error = await run(tool, ['--version'], { env: world.env }).catch((reason: unknown) => reason);
    assert.is((error as NodeJS.ErrnoException).code, 'ENOENT', tool);
  }
});

test('doctor reports no problem', async () => {
  const { ok, checks } = await json('doctor', '--json');
  assert.equal(
    checks.filter(({ status }: { status: string }) => status === 'fail'),
    [],
  );
  assert.is(ok, true);
});

test('run answers with the addon of the package', async () => {
  const answer = await json('run', '--json', '--max-tokens', '8', '--seed', '1', 'Hello');
  assert.ok(answer.text.length > 0);
  assert.ok(answer.usage.output_tokens > 0);
  const { addon } = await json('version', '--json');
  const prefix = await realpath(join(world.dir, 'prefix'));
  assert.ok(addon.path.startsWith(join(prefix, 'lib', 'node_modules', 'svc-runtime', 'prebuilds')), addon.path);
});

test('the program of the README imports the package and gets an answer from that daemon', async () => {
  const [, program = ''] = /^```js\n(import .*?)^```$/ms.exec(await readFile(join(root, 'README.md'), 'utf8')) ?? [];
  assert.match(program, "from 'svc-runtime'");
  const folder = join(world.dir, 'app');
  const modules = join(folder, 'node_modules');
  await mkdir(modules, { recursive: true });
  await symlink(join(world.dir, 'prefix', 'lib', 'node_modules', 'svc-runtime'), join(modules, 'svc-runtime'));
  await writeFile(join(folder, 'app.mjs'), program);
  const { stdout } = await run(process.execPath, ['app.mjs'], { env: world.env, cwd: folder, timeout: 180_000 });
  assert.match(stdout, /svc provider set/);
  const types = await readFile(join(modules, 'svc-runtime', 'dist', 'client', 'index.d.ts'), 'utf8');
  assert.match(types, 'Client');
});

test('version shows the commit that the package was built from', async () => {
  const head = existsSync(join(root, '.git')) ? await run('git', ['rev-parse', 'HEAD'], { cwd: root }) : null;
  const { commit } = await json('version', '--json');
  assert.is(commit, head?.stdout.trim() ?? null);
});

test('man finds the man page', async () => {
  const page = await readFile(join(world.dir, 'prefix', 'share', 'man', 'man1', 'svc.1'), 'utf8');
  assert.match(page, /^\.SH NAME\nsvc /m);
});

test('stop leaves no process running', async () => {
  await svc('stop');
  const status = await svc('status', '--json').catch((error: unknown) => error as { code: number });
  assert.is('code' in status ? status.code : 0, 3);
});

test('the package contains no source, test or build tool', async () => {
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

test('installed dependencies have exactly the versions of the lock file', async () => {
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

test('the README states the true package size', async () => {
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

/** Environment with only Node, npm and the shell for npm scripts; npm keeps its registry and proxy settings. */
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
  // Otherwise run would read the open pipe to its end as part of the prompt.
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
