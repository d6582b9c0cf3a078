import { chmodSync, mkdirSync, mkdtempSync, rmSync, statSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { checkHome } from '../../src/home/home.ts';
import { makePrivateDirectory, pathsFrom, type Surroundings } from '../../src/home/paths.ts';
import type { Variable } from '../../src/process/environment.ts';
import { SvcError } from '../../src/protocol/errors.ts';

function machine(platform: NodeJS.Platform, variables: Partial<Record<Variable, string>> = {}): Surroundings {
  const home = platform === 'win32' ? 'C:\\Users\\ann' : '/people/ann';
  const tmp = platform === 'win32' ? 'C:\\Temp' : '/tmp';
  return { platform, home, tmp, user: '1000', variable: (name) => variables[name] };
}

function refusal(work: () => unknown): SvcError {
  try {
    work();
  } catch (error) {
    if (error instanceof SvcError) return error;
    throw error;
  }
  throw new Error('it was not refused');
}

test('linux: XDG defaults', () => {
  assert.equal(pathsFrom(machine('linux')), {
    configFile: '/people/ann/.config/svc/config.json',
    modelsDir: '/people/ann/.local/share/svc/models',
    dataDir: '/people/ann/.local/share/svc',
    keyFile: '/people/ann/.local/share/svc/keys.json',
    credentialsFile: '/people/ann/.local/share/svc/credentials.json',
    stateDir: '/people/ann/.local/state/svc',
    cacheDir: '/people/ann/.cache/svc',
    runtimeDir: '/tmp/svc-1000',
    socketPath: '/tmp/svc-1000/svc.sock',
    daemonFile: '/people/ann/.local/state/svc/daemon.json',
    logFile: '/people/ann/.local/state/svc/daemon.log',
  });
});

test('linux: XDG variables are honoured when absolute and ignored otherwise', () => {
  const paths = pathsFrom(
    machine('linux', {
      XDG_CONFIG_HOME: '/c',
      XDG_DATA_HOME: '/d',
      XDG_STATE_HOME: 'relative',
      XDG_RUNTIME_DIR: '/run/user/7',
    }),
  );
  assert.is(paths.configFile, '/c/svc/config.json');
  assert.is(paths.modelsDir, '/d/svc/models');
  assert.is(paths.stateDir, '/people/ann/.local/state/svc');
  assert.is(paths.socketPath, '/run/user/7/svc/svc.sock');
});

test('SVC_HOME contains everything; SVC_SOCKET and SVC_CONFIG override it', () => {
  const paths = pathsFrom(machine('linux', { SVC_HOME: '/h', XDG_CONFIG_HOME: '/c' }));
  for (const path of Object.values(paths)) assert.ok(path.startsWith('/h/'), path);
  assert.is(paths.modelsDir, '/h/models');
  assert.is(paths.socketPath, '/h/run/svc.sock');
  const moved = pathsFrom(machine('linux', { SVC_HOME: '/h', SVC_SOCKET: '/s/x.sock', SVC_CONFIG: '/k.json' }));
  assert.is(moved.socketPath, '/s/x.sock');
  assert.is(moved.configFile, '/k.json');
});

test('macOS and Windows follow their own conventions', () => {
  const mac = pathsFrom(machine('darwin'));
  assert.is(mac.configFile, '/people/ann/Library/Application Support/svc/config.json');
  assert.is(mac.logFile, '/people/ann/Library/Logs/svc/daemon.log');
  assert.is(mac.socketPath, '/tmp/svc-1000/svc.sock');
  const windows = pathsFrom(machine('win32', { LOCALAPPDATA: 'D:\\Local' }));
  assert.is(windows.configFile, 'C:\\Users\\ann\\AppData\\Roaming\\svc\\config.json');
  assert.is(windows.modelsDir, 'D:\\Local\\svc\\Data\\models');
  assert.match(windows.socketPath, /^\\\\\.\\pipe\\svc-[0-9a-f]{16}$/);
});

test('on Windows two homes have different pipes', () => {
  const pipe = (home: string): string => pathsFrom(machine('win32', { SVC_HOME: home })).socketPath;
  assert.is.not(pipe('C:\\a'), pipe('C:\\b'));
});

test('a socket path above the limit of the system is refused, not truncated', () => {
  const fits = `/${'x'.repeat(106)}`;
  assert.is(pathsFrom(machine('linux', { SVC_SOCKET: fits })).socketPath, fits);
  const error = refusal(() => pathsFrom(machine('linux', { SVC_SOCKET: `${fits}x` })));
  assert.is(error.code, 'CONFIG_INVALID');
  assert.match(error.message, '108 bytes, this system allows 107');
  assert.match(error.hint ?? '', 'SVC_SOCKET');
  // The limit is in bytes, not characters.
  assert.is(refusal(() => pathsFrom(machine('linux', { SVC_SOCKET: `/${'ü'.repeat(54)}` }))).code, 'CONFIG_INVALID');
  assert.is(refusal(() => pathsFrom(machine('darwin', { SVC_SOCKET: `/${'x'.repeat(103)}` }))).code, 'CONFIG_INVALID');
});

test('relative paths are refused', () => {
  for (const name of ['SVC_HOME', 'SVC_SOCKET', 'SVC_CONFIG'] as const) {
    const error = refusal(() => pathsFrom(machine('linux', { [name]: 'here' })));
    assert.is(error.code, 'CONFIG_INVALID');
    assert.match(error.message, name);
  }
});

const scratch = mkdtempSync(join(tmpdir(), 'svc-paths-'));
test.after(() => {
  rmSync(scratch, { recursive: true, force: true });
});

test('the private directory is created with mode 0700; an existing one that is too open is corrected', () => {
  const directory = join(scratch, 'a', 'run');
  makePrivateDirectory(directory);
  assert.is(statSync(directory).mode & 0o777, 0o700);
  chmodSync(directory, 0o777);
  makePrivateDirectory(directory);
  assert.is(statSync(directory).mode & 0o777, 0o700);
});

test('an open directory with files of other programs only is refused, and keeps its mode', () => {
  const directory = join(scratch, 'shared');
  mkdirSync(directory);
  chmodSync(directory, 0o755);
  writeFileSync(join(directory, 'other.pid'), '');
  const make = (): void => makePrivateDirectory(directory, (name) => name === 'svc.sock');
  const error = refusal(make);
  assert.is(error.code, 'CONFIG_INVALID');
  assert.match(error.hint ?? '', `chmod 700 ${directory}`);
  assert.is(statSync(directory).mode & 0o777, 0o755);
  // Of an older version, or of a volume that is mounted with other modes.
  writeFileSync(join(directory, 'svc.sock'), '');
  make();
  assert.is(statSync(directory).mode & 0o777, 0o700);
});

test('the root directory is refused as SVC_HOME', () => {
  for (const home of ['/', '//', '/tmp/..']) {
    const error = refusal(() => checkHome(home));
    assert.is(error.code, 'CONFIG_INVALID');
    assert.match(error.message, 'it is the root directory');
  }
});

test('a link, a file or a directory of another user is not accepted as the private directory', () => {
  const real = join(scratch, 'real');
  mkdirSync(real);
  symlinkSync(real, join(scratch, 'link'));
  assert.is(refusal(() => makePrivateDirectory(join(scratch, 'link'))).code, 'CONFIG_INVALID');
  writeFileSync(join(scratch, 'file'), '');
  refusal(() => makePrivateDirectory(join(scratch, 'file')));
  if (process.getuid?.() !== 0) assert.is(refusal(() => makePrivateDirectory('/usr')).code, 'CONFIG_INVALID');
});

test.run();
