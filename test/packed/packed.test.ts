/**
 * The npm packages as a user gets them: packed, then installed from a folder of tarballs into an empty home on a system
 * without compiler, CMake, git, Python and network, and without running scripts. They must answer a prompt and run only
 * their own files.
 */
import { execFile } from 'node:child_process';
import { existsSync } from 'node:fs';
import {
  copyFile,
  mkdir,
  mkdtemp,
  readdir,
  readFile,
  realpath,
  rename,
  rm,
  stat,
  symlink,
  writeFile,
} from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { pack, writeJson } from '../../scripts/steps/pack.js';
import { packageName, platforms, restrictions } from '../../scripts/steps/platforms.js';
import { startRegistry, type Registry } from '../../scripts/steps/registry.js';
import { ControlClient } from '../../src/client/control-client.ts';
import type { Message } from '../../src/protocol/generate.ts';
import type { StatusRecord } from '../../src/protocol/records.ts';
import { waitFor } from '../support/wait.ts';

const MB = 1e6;
const root = join(import.meta.dirname, '..', '..');
const run = promisify(execFile);
const PLATFORM = `svc-runtime-${process.platform}-${process.arch}`;

interface Locked {
  readonly version: string;
}
interface Manifest {
  readonly optionalDependencies?: Readonly<Record<string, string>>;
}

interface World {
  dir: string;
  /** What a user of this platform downloads. */
  tarballs: readonly string[];
  env: Record<string, string>;
  registry: Registry | null;
}
const world: World = { dir: '', tarballs: [], env: {}, registry: null };

test.before(async () => {
  world.dir = await mkdtemp(join(tmpdir(), 'svc-'));
  const out = join(root, 'build', 'packages');
  const platform = `${process.platform}-${process.arch}`;
  // Also checks both.
  await run(process.execPath, [join(root, 'scripts', 'packages.js'), '--out', out, platform, 'svc-runtime'], {
    cwd: root,
  });
  const { version } = JSON.parse(await readFile(join(root, 'package.json'), 'utf8')) as Locked;
  world.tarballs = ['svc-runtime', PLATFORM].map((name) => join(out, `${name}-${version}.tgz`));
  world.registry = await startRegistry([await packagesOfOtherPlatforms(version), out]);
  world.env = await bareEnvironment(world.dir, world.registry);
  await run('npm', ['install', '--global', 'svc-runtime'], { env: world.env, cwd: world.dir });
});

test.after(async () => {
  await svc('stop', '--force').catch(() => undefined);
  world.registry?.close();
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
  assert.is(addon.path, join(await realpath(await platformFolder()), 'bin', 'svc.node'));
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

test('without the package for the platform, every command names it and the mend, which mends it', async () => {
  const folder = await platformFolder();
  await rename(folder, join(world.dir, 'away'));
  const sentence = new RegExp(`the package ${PLATFORM}, with the engine and the built-in model, is not installed`);
  const version = await svc('version');
  assert.match(version.stdout, sentence);
  const [, command = ''] = /hint:\s+run: npm (.+)/.exec(version.stdout) ?? [];
  assert.match(command, /^install --global --include=optional svc-runtime@\d+\.\d+\.\d+$/);
  for (const args of [
    ['doctor', '--offline'],
    ['run', 'Hello'],
  ]) {
    const { code, stdout, stderr } = await failure(args);
    assert.is(code, args[0] === 'run' ? 69 : 1, args[0]);
    assert.match(stdout + stderr, sentence, args[0]);
    assert.ok((stdout + stderr).includes(`npm ${command}`), `${String(args[0])}: ${stdout}${stderr}`);
  }
  await svc('stop', '--force').catch(() => undefined);

  await run('npm', command.split(' '), { env: world.env, cwd: world.dir });
  assert.is((await json('version', '--json')).addon.error, null);
});

test('a package for the platform of another version is refused', async () => {
  const path = join(await platformFolder(), 'package.json');
  const manifest = await readFile(path, 'utf8');
  await writeFile(path, manifest.replace(/"version": ".*"/, '"version": "0.0.1"'));
  const { addon } = await json('version', '--json');
  await writeFile(path, manifest);
  assert.match(addon.error, /has version 0\.0\.1, svc-runtime has/);
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
  ];
  assert.equal(files, [...expected, 'package.json', 'proto', 'providers']);
  assert.equal(await readdir(join(installed, 'models')), ['catalogue.json']);
});

test('nothing else is installed than the packages for JavaScript and for this platform', async () => {
  const modules = join(world.dir, 'prefix', 'lib', 'node_modules');
  const manifests = (await readdir(modules, { recursive: true })).filter((path) => path.endsWith('package.json'));
  assert.equal(manifests.sort(), [`svc-runtime/node_modules/${PLATFORM}/package.json`, 'svc-runtime/package.json']);
});

test('the two files are installed without a registry, too', async () => {
  const prefix = join(world.dir, 'offline');
  const env = {
    ...world.env,
    npm_config_prefix: prefix,
    npm_config_cache: join(world.dir, 'empty'),
    npm_config_offline: 'true',
  };
  await run('npm', ['install', '--global', ...world.tarballs], { env, cwd: world.dir });
  const { stdout } = await run(join(prefix, 'bin', 'svc'), ['version', '--json'], { env, cwd: world.dir });
  assert.is((JSON.parse(stdout) as { addon: { error: unknown } }).addon.error, null);
});

test('the README states the true package size', async () => {
  const sizes = await Promise.all(world.tarballs.map(sizeOf));
  const packed = sizes.reduce((total, size) => total + size, 0) / MB;
  const installed = (await sizeOf(join(world.dir, 'prefix'))) / MB;
  const [, saysPacked, saysInstalled] =
    /(\d+) MB packed, (\d+) MB installed/.exec(await readFile(join(root, 'README.md'), 'utf8')) ?? [];
  const figures = `${packed.toFixed(1)} MB packed, ${installed.toFixed(1)} MB installed`;
  assert.ok(Math.abs(Number(saysPacked) - packed) <= 1, figures);
  assert.ok(Math.abs(Number(saysInstalled) - installed) <= 3, figures);
});

test('installed beside a running daemon, the next version is noticed; `svc restart` comes back with it', async () => {
  const next = await nextVersion(join(root, 'build', 'packages'));
  await svc('start', '--timeout', '150s');
  const model = join(world.dir, 'mine.gguf');
  await copyFile(join(await platformFolder(), 'nano.gguf'), model);
  await svc('model', 'add', model, '--name', 'mine');
  await svc('model', 'load', 'mine');
  const client = new ControlClient(join(world.dir, 'svc', 'run', 'svc.sock'));
  const question = {
    role: 'user',
    content: 'A new version comes, and the old conversation goes on. '.repeat(60),
  } as const;
  const turn = (...messages: Message[]) =>
    client.generate({ model: 'mine', messages, max_tokens: 8, sampling: { temperature: 0 }, stop: [] }).result();
  const { text } = await turn(question);
  const before = await client.status();

  world.registry?.close();
  world.registry = await startRegistry([next.folder]);
  const env = { ...world.env, npm_config_registry: world.registry.url };
  await run('npm', ['install', '--global', `svc-runtime@${next.version}`], { env, cwd: world.dir });
  const { stderr } = await svc('status');
  assert.match(stderr, `the daemon has version ${before.version}, this command ${next.version}: run \`svc restart\``);
  await waitFor('the daemon to notice', async () => (await client.status()).installed_version === next.version);
  assert.is((await client.ready()).state, 'READY');

  const { stdout } = await svc('restart', '--json');
  const after = JSON.parse(stdout) as StatusRecord & { previous: object };
  assert.equal([after.state, after.version, after.installed_version], ['READY', next.version, next.version]);
  assert.equal(after.previous, { pid: before.pid, version: before.version, killed: false });
  assert.equal(after.models.map(({ id }) => id).sort(), ['builtin', 'mine']);
  const { usage } = await turn(question, { role: 'assistant', content: text }, { role: 'user', content: 'Why?' });
  const { input_tokens = 0, cached_tokens = 0 } = usage ?? {};
  assert.ok(
    input_tokens > 500 && cached_tokens > 0.98 * input_tokens,
    `${String(cached_tokens)} of ${String(input_tokens)}`,
  );
  assert.is((await svc('status')).stderr, '');

  assert.match((await svc('uninstall', '--yes')).stdout, 'npm rm -g svc-runtime');
  assert.equal(await readdir(world.dir).then((names) => names.includes('svc')), false);
});

test.run();

/** Makes tarballs of the same packages with a higher version. */
async function nextVersion(folder: string): Promise<{ folder: string; version: string }> {
  const { version: old } = JSON.parse(await readFile(join(root, 'package.json'), 'utf8')) as Locked;
  const version = old.replace(/\d+$/, (patch) => String(Number(patch) + 1));
  const to = join(world.dir, 'next');
  await mkdir(to);
  for (const name of [PLATFORM, 'svc-runtime']) {
    const unpacked = join(to, name);
    await mkdir(unpacked);
    await run('tar', ['-xzf', join(folder, `${name}-${old}.tgz`), '-C', unpacked]);
    const path = join(unpacked, 'package', 'package.json');
    const { optionalDependencies: optional, ...manifest } = JSON.parse(await readFile(path, 'utf8')) as Manifest;
    const raised = optional && { optionalDependencies: { ...optional, [PLATFORM]: version } };
    await writeJson(path, { ...manifest, ...raised, version });
    await pack(join(unpacked, 'package'), to);
  }
  return { folder: to, version };
}

/** Returns a folder with an empty package for each other platform: npm must choose. */
async function packagesOfOtherPlatforms(version: string): Promise<string> {
  const to = join(world.dir, 'others');
  for (const platform of Object.keys(platforms).filter((each) => packageName(each) !== PLATFORM)) {
    const folder = join(to, platform);
    await mkdir(folder, { recursive: true });
    await writeJson(join(folder, 'package.json'), { name: packageName(platform), version, ...restrictions(platform) });
    await pack(folder, to);
  }
  return to;
}

/** Environment with only Node, npm and the shell that npm needs; npm reaches nothing but the registry. */
async function bareEnvironment(dir: string, registry: Registry): Promise<Record<string, string>> {
  const [path, home] = [join(dir, 'path'), join(dir, 'home')];
  await Promise.all([path, home].map((folder) => mkdir(folder)));
  await symlink(process.execPath, join(path, 'node'));
  await symlink('/bin/sh', join(path, 'sh'));
  await symlink(await realpath((await run('which', ['npm'])).stdout.trim()), join(path, 'npm'));
  const mark = process.env['SVC_TEST_FILE_RUN'];
  return {
    ...(mark === undefined ? {} : { SVC_TEST_FILE_RUN: mark }),
    PATH: path,
    HOME: home,
    TMPDIR: tmpdir(),
    SVC_HOME: join(dir, 'svc'),
    SVC_HTTP_ADDR: '127.0.0.1:0',
    SVC_GRPC_ADDR: '127.0.0.1:0',
    npm_config_cache: join(dir, 'cache'),
    npm_config_globalconfig: join(dir, 'npmrc'),
    npm_config_prefix: join(dir, 'prefix'),
    npm_config_registry: registry.url,
    npm_config_ignore_scripts: 'true',
    npm_config_audit: 'false',
  };
}

function svc(...args: string[]): Promise<{ stdout: string; stderr: string }> {
  const done = run(join(world.dir, 'prefix', 'bin', 'svc'), args, { env: world.env, cwd: world.dir, timeout: 180_000 });
  // Otherwise run would read the open pipe to its end as part of the prompt.
  done.child.stdin?.end();
  return done;
}

/** The result of a command that must fail. */
async function failure(args: readonly string[]): Promise<{ code: number; stdout: string; stderr: string }> {
  try {
    await svc(...args);
  } catch (error) {
    return error as { code: number; stdout: string; stderr: string };
  }
  throw new Error(`svc ${args.join(' ')} succeeded`);
}

/** Where npm put the package for this platform: below svc-runtime, or beside it. */
async function platformFolder(): Promise<string> {
  const modules = join(world.dir, 'prefix', 'lib', 'node_modules');
  const below = join(modules, 'svc-runtime', 'node_modules', PLATFORM);
  return existsSync(below) ? below : join(modules, PLATFORM);
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
