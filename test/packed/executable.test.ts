/** The single executable: it unpacks its files safely, and runs where there is nothing but the C and C++ library. */
import { execFile } from 'node:child_process';
import { chmod, chown, copyFile, mkdir, mkdtemp, readdir, rm, stat, truncate, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { promisify } from 'node:util';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { makeExecutables, type Executables } from '../../scripts/steps/executable.js';
import { copySystemLibraries } from '../../scripts/steps/system-libraries.js';
import { childEnvironment } from '../../src/process/environment.ts';
import { inChroot, noChroot } from '../support/chroot.ts';
import { unless } from '../support/skip.ts';

const world: { built: Executables; folder: string; home: string } = {
  built: { executable: '', packaged: '', files: '', digest: '' },
  folder: '',
  home: '',
};
const isRoot = process.getuid?.() === 0;

test.before(async () => {
  world.built = await makeExecutables();
  world.folder = await mkdtemp(join(tmpdir(), 'svc-'));
});

test.before.each(async () => {
  world.home = await mkdtemp(join(world.folder, 'home-'));
});

test.after(async () => {
  await rm(world.folder, { recursive: true, force: true });
});

/** The folder into which the executable unpacks. */
const unpacked = (): string => join(world.home, 'cache', 'executable', world.built.digest);

async function svc(...args: string[]): Promise<any> {
  const env = childEnvironment({ SVC_HOME: world.home, SVC_ADDON: undefined });
  return JSON.parse((await promisify(execFile)(world.built.executable, [...args, '--json'], { env })).stdout);
}

async function inodes(): Promise<Record<string, number>> {
  const paths = (await readdir(unpacked(), { recursive: true })).sort();
  return Object.fromEntries(
    await Promise.all(paths.map(async (path) => [path, (await stat(join(unpacked(), path))).ino])),
  );
}

test('it unpacks its files once, for its user only, and leaves nothing else', async () => {
  const { addon, version } = await svc('version');
  assert.is(addon.error, null);
  assert.is(addon.path, join(unpacked(), 'bin', 'svc.node'));
  assert.match(version, /^\d+\.\d+\.\d+$/);
  assert.equal(await readdir(dirname(unpacked())), [world.built.digest]);
  for (const folder of [dirname(unpacked()), unpacked(), join(unpacked(), 'bin')]) {
    assert.is((await stat(folder)).mode & 0o777, 0o700, folder);
  }
  assert.is((await stat(addon.path)).mode & 0o777, 0o600);
  const before = await inodes();
  await svc('version');
  assert.equal(await inodes(), before);
});

test('processes that start at once share one folder', async () => {
  const all = await Promise.all([svc('version'), svc('version'), svc('version')]);
  for (const { addon } of all) assert.is(addon.error, null);
  assert.equal(await readdir(dirname(unpacked())), [world.built.digest]);
});

test('it unpacks again what is incomplete or was writable by others', async () => {
  await svc('version');
  const library = join(unpacked(), 'bin', 'svc.node');
  for (const spoil of [() => truncate(library, 4096), () => rm(library), () => chmod(library, 0o666)]) {
    await spoil();
    assert.is((await svc('version')).addon.error, null);
    assert.is((await stat(library)).mode & 0o777, 0o600);
    assert.equal(await readdir(dirname(unpacked())), [world.built.digest]);
  }
});

unless(isRoot ? undefined : 'only root can give files away', test)(
  "it refuses another user's folder, and replaces another user's files in its own",
  async () => {
    await svc('version');
    await chown(join(unpacked(), 'bin', 'svc.node'), 65534, 65534);
    assert.is((await svc('version')).addon.error, null);
    assert.is((await stat(join(unpacked(), 'bin', 'svc.node'))).uid, 0);

    await chown(dirname(unpacked()), 65534, 65534);
    const { addon } = await svc('version');
    assert.match(addon.error, /is not safe to use: it belongs to user 65534/);
    assert.match(addon.hint, /SVC_HOME/);
  },
);

test('it names a cache in which it cannot write', async () => {
  await writeFile(join(world.home, 'cache'), '');
  const { addon } = await svc('version');
  assert.match(addon.error, `the files of the executable cannot be unpacked: cannot create ${dirname(unpacked())}`);
  assert.match(addon.hint, /SVC_HOME/);
});

test('the executable of packages needs the folder beside it and no cache', async () => {
  const run = async (path: string): Promise<any> => {
    const env = childEnvironment({ SVC_HOME: world.home, SVC_ADDON: undefined });
    return JSON.parse((await promisify(execFile)(path, ['version', '--json'], { env })).stdout);
  };
  const { addon } = await run(world.built.packaged);
  assert.is(addon.path, join(world.built.files, 'bin', 'svc.node'));
  assert.not.ok((await readdir(world.home)).includes('cache'));
  const alone = join(world.home, 'svc');
  await copyFile(world.built.packaged, alone);
  const missing = (await run(alone)).addon;
  assert.match(missing.error, /is damaged: .*files-[0-9a-f]{32} is missing or incomplete/);
});

unless(noChroot(), test)(
  'it runs in a root file system with nothing but libc, libstdc++ and their linker',
  async () => {
    const root = join(world.home, 'root');
    for (const name of ['dev', 'proc', 'tmp', 'var']) await mkdir(join(root, name), { recursive: true });
    await copyFile(world.built.executable, join(root, 'svc'));
    const native = (await readdir(join(world.built.files, 'bin'))).map((name) => join(world.built.files, 'bin', name));
    // ldd names a library of our own that is needed by another one.
    await copySystemLibraries([world.built.executable, ...native], root);
    await rm(join(root, dirname(world.built.files)), { recursive: true, force: true });
    const libraries = (await readdir(root, { recursive: true }))
      .filter((path) => /\.so/.test(path))
      .map((path) => path.replace(/.*\//, ''));
    assert.equal(
      libraries.filter((name) => !/^(ld-linux-.*|lib(c|m|dl|pthread|rt|gcc_s|stdc\+\+))\.so\.\d+$/.test(name)),
      [],
    );

    const env = { SVC_HOME: '/var/svc', SVC_HTTP_ADDR: '127.0.0.1:0', SVC_GRPC_ADDR: '127.0.0.1:0' };
    const run = async (...args: string[]): Promise<string> => (await inChroot(root, ['/svc', ...args], { env })).stdout;
    try {
      assert.match(await run('version'), '/var/svc/cache/executable/');
      assert.ok((await run('run', '--max-tokens', '4', '--seed', '1', 'Hello')).length > 0);
      // Checks gRPC too, whose definitions are files.
      const { checks } = JSON.parse(await run('doctor', '--offline', '--json'));
      assert.equal(
        checks.filter(({ status }: { status: string }) => status === 'fail'),
        [],
      );
      assert.match(await run('stop'), 'stopped');
    } finally {
      await run('stop', '--force').catch(() => undefined);
    }
  },
);

test.run();
