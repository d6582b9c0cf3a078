/** The Debian package: contents, maintainer scripts, and an installation into a root file system of its own. */
import { execFile, spawnSync } from 'node:child_process';
import { chmod, lstat, mkdir, mkdtemp, readdir, readFile, rm, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { gunzipSync } from 'node:zlib';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { makeDeb } from '../../scripts/steps/deb.js';
import { copySystemLibraries } from '../../scripts/steps/system-libraries.js';
import { childEnvironment } from '../../src/process/environment.ts';
import { inChroot, noChroot } from '../support/chroot.ts';
import { unless } from '../support/skip.ts';

const run = promisify(execFile);
const has = (program: string): boolean => spawnSync(program, ['--version']).error === undefined;
const noDpkg = has('dpkg-deb') ? undefined : 'dpkg is not installed';
const needs = (program: string): string | undefined =>
  noDpkg ?? (has(program) ? undefined : `${program} is not installed`);
const lacking = ['systemd-sysusers', 'deb-systemd-helper'].find((program) => !has(program));
const noInstallation = noDpkg ?? noChroot() ?? (lacking === undefined ? undefined : `${lacking} is not installed`);

/** `deb`: the package; `root`: where its files lie, unpacked or installed; `control`: its control files. */
const world = { deb: '', folder: '', root: '', control: '' };

test.before(async () => {
  if (noDpkg !== undefined) return;
  world.deb = await makeDeb();
  world.folder = await mkdtemp(join(tmpdir(), 'svc-'));
  world.root = join(world.folder, 'root');
  world.control = join(world.folder, 'control');
  await run('dpkg-deb', ['--extract', world.deb, world.root]);
  await run('dpkg-deb', ['--control', world.deb, world.control]);
});

test.after(async () => {
  if (world.folder !== '') await rm(world.folder, { recursive: true, force: true });
});

const read = (path: string): Promise<string> => readFile(join(world.root, path), 'utf8');

unless(noDpkg, test)('it has the executable, the service, the manual and the completions, all of root', async () => {
  const { stdout } = await run('dpkg-deb', ['--contents', world.deb]);
  const entries = stdout
    .trim()
    .split('\n')
    .map((line) => /^(\S+) (\S+) +\d+ \S+ \S+ \.(\S*)(?: -> (\S+))?$/.exec(line)?.slice(1) ?? [line]);
  const odd = entries.filter(([mode = '', owner, path = '']) => {
    const isProgram = path === '/usr/lib/svc/svc';
    const wanted = mode.startsWith('d') || isProgram ? /^[d-]rwxr-xr-x$/ : /^(-rw-r--r--|lrwxrwxrwx)$/;
    return owner !== 'root/root' || !wanted.test(mode);
  });
  assert.equal(odd, []);
  const paths = new Map(entries.map(([, , path = '', target]) => [path, target]));
  assert.is(paths.get('/usr/bin/svc'), '../lib/svc/svc');
  for (const path of [
    '/usr/lib/systemd/system/svc.service',
    '/usr/lib/sysusers.d/svc.conf',
    '/usr/share/man/man1/svc.1.gz',
    '/usr/share/bash-completion/completions/svc',
    '/usr/share/zsh/vendor-completions/_svc',
    '/usr/share/fish/vendor_completions.d/svc.fish',
    '/usr/share/doc/svc-runtime/copyright',
    '/usr/share/doc/svc-runtime/changelog.gz',
    '/etc/svc/config.json',
  ]) {
    assert.ok(paths.has(path), path);
  }
  assert.equal(
    [...paths.keys()].filter((path) => !/^\/($|etc\/|usr\/(bin|lib|share)?)/.test(path)),
    [],
  );
});

unless(noDpkg, test)('its control files are complete and right', async () => {
  const control = await readFile(join(world.control, 'control'), 'utf8');
  const { version } = JSON.parse(await readFile('package.json', 'utf8'));
  assert.match(control, new RegExp(`^Package: svc-runtime\nVersion: ${version}\nArchitecture: (amd64|arm64)\n`));
  assert.match(control, /^Depends: libc6 \(>= 2\.35\), /m);
  assert.ok(
    control.split('\n').every((line) => line.length <= 110),
    'no long lines',
  );
  assert.is(await readFile(join(world.control, 'conffiles'), 'utf8'), '/etc/svc/config.json\n');
  const sums = await readFile(join(world.control, 'md5sums'), 'utf8');
  await writeFile(join(world.folder, 'md5sums'), sums);
  await run('md5sum', ['--check', '--quiet', '--strict', join(world.folder, 'md5sums')], { cwd: world.root });
  const files = (await readdir(world.root, { recursive: true, withFileTypes: true })).filter((entry) => entry.isFile());
  assert.is(sums.trim().split('\n').length, files.length - 1, 'all but the conffile');
  for (const name of ['postinst', 'prerm', 'postrm']) {
    assert.is((await stat(join(world.control, name))).mode & 0o777, 0o755);
    await run('sh', ['-n', join(world.control, name)]);
  }
});

for (const [shell, path, args] of [
  ['bash', 'usr/share/bash-completion/completions/svc', ['-n']],
  ['zsh', 'usr/share/zsh/vendor-completions/_svc', ['-n']],
  ['fish', 'usr/share/fish/vendor_completions.d/svc.fish', ['--no-execute']],
] as const) {
  unless(needs(shell), test)(`${shell} can read its completions`, async () => {
    await run(shell, [...args, join(world.root, path)]);
    assert.match(await read(path), /model/);
  });
}

unless(needs('groff'), test)('groff formats its manual without a warning', async () => {
  const page = gunzipSync(await readFile(join(world.root, 'usr/share/man/man1/svc.1.gz')));
  await writeFile(join(world.folder, 'svc.1'), page);
  const { stderr } = await run('groff', ['-man', '-Tutf8', '-ww', '-z', join(world.folder, 'svc.1')]);
  assert.is(stderr, '');
});

unless(needs('systemd-analyze'), test)('systemd accepts the unit, whose sandbox is below 3.0', async () => {
  const unit = await read('usr/lib/systemd/system/svc.service');
  assert.match(unit, '\nExecStart=/usr/bin/svc serve --mode service\n');
  assert.match(unit, '\nUser=svc\n');
  // The manual is not in this system's path of manuals, nor the program in its path.
  const here = unit.replace('/usr/bin/svc', process.execPath).replace(/^Documentation=.*\n/m, '');
  const file = join(world.folder, 'svc.service');
  await writeFile(file, here);
  const verdict = await run('systemd-analyze', ['verify', file]);
  assert.is(verdict.stdout + verdict.stderr, '');
  const { stdout } = await run('systemd-analyze', ['security', '--offline=true', file]);
  const exposure = Number(/exposure level for svc\.service: ([\d.]+)/.exec(stdout)?.[1]);
  assert.ok(exposure < 3, stdout);
});

unless(noInstallation, test)(
  'dpkg installs it, makes the user, enables the service, and removes all again',
  async () => {
    const root = join(world.folder, 'installed');
    for (const name of ['var/lib/dpkg/info', 'var/lib/dpkg/updates', 'etc', 'dev', 'proc', 'tmp']) {
      await mkdir(join(root, name), { recursive: true });
    }
    for (const name of ['status', 'available']) await writeFile(join(root, 'var/lib/dpkg', name), '');
    const dpkg = async (...args: string[]): Promise<void> => {
      const force = ['--force-script-chrootless', '--force-depends'];
      await run('dpkg', [`--root=${root}`, '--log=/dev/null', ...force, ...args]);
    };
    await dpkg('--install', world.deb);
    const status = await readFile(join(root, 'var/lib/dpkg/status'), 'utf8');
    assert.match(status, 'Status: install ok installed');
    const [, uid, gid] =
      /^svc:[^:]*:(\d+):(\d+):[^:]*:\/var\/lib\/svc:\S*nologin$/m.exec(
        await readFile(join(root, 'etc/passwd'), 'utf8'),
      ) ?? [];
    assert.ok(Number(uid) > 0 && Number(uid) < 1000, 'a system user');
    const wanted = join(root, 'etc/systemd/system/multi-user.target.wants/svc.service');
    assert.ok((await lstat(wanted)).isSymbolicLink());

    const files = await readdir(join(root, 'usr/lib/svc'));
    const natives = join(root, 'usr/lib/svc', files.find((name) => name.startsWith('files-')) ?? '', 'bin');
    const programs = (await readdir(natives)).map((name) => join(natives, name));
    await copySystemLibraries([join(root, 'usr/lib/svc/svc'), ...programs], root);
    const state = join(world.folder, 'state');
    await mkdir(state);
    await mkdir(join(root, 'var/lib/svc'));
    await chmod(world.folder, 0o755);
    await run('chown', [`${String(uid)}:${String(gid)}`, state]);
    const env = { SVC_HOME: '/var/lib/svc', SVC_CONFIG: '/etc/svc/config.json', SVC_HTTP_ADDR: '127.0.0.1:0' };
    const options = { env, user: `${String(uid)}:${String(gid)}`, volume: { folder: state, at: '/var/lib/svc' } };
    const { stdout } = await inChroot(root, ['/usr/bin/svc', 'version', '--json'], options);
    const { addon } = JSON.parse(stdout);
    assert.is(addon.error, null);
    assert.match(addon.path, /^\/usr\/lib\/svc\/files-/);

    await dpkg('--remove', 'svc-runtime');
    assert.equal(await readdir(join(root, 'etc/svc')), ['config.json']);
    assert.is(await lstat(join(root, 'usr/bin')).catch(() => null), null);
    await dpkg('--purge', 'svc-runtime');
    assert.not.ok((await readdir(join(root, 'etc'))).includes('svc'));
    assert.not.ok((await readdir(join(root, 'var/lib'))).includes('svc'));
    assert.is(await lstat(wanted).catch(() => null), null);
  },
);

unless(noInstallation, test)(
  'on a system that systemd runs, removal stops the service and an update does not',
  async () => {
    const bin = join(world.folder, 'bin');
    const log = join(world.folder, 'calls');
    await mkdir(bin);
    const program = join(bin, 'deb-systemd-invoke');
    await writeFile(program, '#!/bin/sh\necho "$@" >> "$CALLS"\n');
    await chmod(program, 0o755);
    const script = 'mount -t tmpfs tmpfs /run; mkdir -p /run/systemd/system; exec sh "$@"';
    const prerm = async (argument: string): Promise<string> => {
      await writeFile(log, '');
      const env = childEnvironment({
        CALLS: log,
        PATH: `${bin}:${childEnvironment()['PATH'] ?? ''}`,
        DPKG_ROOT: undefined,
      });
      await run('unshare', ['--mount', 'sh', '-ec', script, 'sh', join(world.control, 'prerm'), argument], { env });
      return await readFile(log, 'utf8');
    };
    assert.is(await prerm('remove'), 'stop svc.service\n');
    assert.is(await prerm('upgrade'), '');
  },
);

test.run();
