/** The text of the systemd units, for paths and addresses that need care. */
import { spawnSync } from 'node:child_process';
import { mkdirSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { parseConfig } from '../../src/config/config.ts';
import { childEnvironment } from '../../src/process/environment.ts';
import { pathsFrom, type Paths } from '../../src/home/paths.ts';
import { defineService, type ServiceDefinition } from '../../src/service/definition.ts';
import { serviceUnit } from '../../src/service/systemd-unit.ts';
import { makeHome } from '../support/home.ts';
import { unless } from '../support/skip.ts';

const noSystemd = spawnSync('systemd-analyze', ['--version']).status === 0 ? undefined : 'systemd is not installed';

const DEFINITION: ServiceDefinition = {
  command: ['/usr/bin/node', '/opt/svc/bin/svc.cjs', 'serve', '--mode', 'service'],
  environment: {},
  writable: ['/srv/me/.local/share/svc'],
  shared: ['/srv/me/.config/svc'],
  socket: '/run/user/1000/svc/svc.sock',
  address: '127.0.0.1:7117',
  errorLog: '/srv/me/state/daemon.stderr',
};

function pathsOf(variables: Readonly<Record<string, string>>): Paths {
  const surroundings = { platform: 'linux', home: '/srv/me', tmp: '/tmp', user: '1000' } as const;
  return pathsFrom({ ...surroundings, variable: (name) => variables[name] });
}

function sharedOf(paths: Paths): readonly string[] {
  return defineService(paths, parseConfig('').config).shared;
}

test('systemd makes the runtime directory at every start, unless it is in SVC_HOME', () => {
  const { runtimeDir } = pathsOf({ XDG_RUNTIME_DIR: '/run/user/1000' });
  const unit = serviceUnit(DEFINITION);
  const [, name] = /^RuntimeDirectory=(.*)$/m.exec(unit) ?? [];
  assert.is(`/run/user/1000/${String(name)}`, runtimeDir);
  assert.match(unit, '\nRuntimeDirectoryMode=0700\n');
  // A daemon that is not the service may have its socket there.
  assert.match(unit, '\nRuntimeDirectoryPreserve=yes\n');
  assert.not.match(serviceUnit({ ...DEFINITION, environment: { SVC_HOME: '/srv/me/svc' } }), 'RuntimeDirectory');
});

test('the directories of the config and of the control socket are writable', async () => {
  const home = await makeHome();
  try {
    const link = join(home.dir, 'linked', 'config.json');
    const file = join(home.dir, 'dotfiles', 'svc.json');
    for (const path of [link, file]) mkdirSync(dirname(path));
    writeFileSync(file, '{}');
    symlinkSync(file, link);
    const lasting = pathsOf({ SVC_HOME: home.dir, SVC_CONFIG: link, SVC_SOCKET: '/srv/me/svc.sock' });
    assert.equal(sharedOf(lasting), [dirname(link), dirname(file), '/srv/me']);
    // A folder in /tmp does not exist after a boot.
    const emptied = pathsOf({ SVC_HOME: home.dir, SVC_SOCKET: join(tmpdir(), 'svc-me', 'svc.sock') });
    assert.equal(sharedOf(emptied), [join(home.dir, 'config'), tmpdir()]);
    const unit = serviceUnit({ ...DEFINITION, shared: sharedOf(emptied) });
    assert.match(unit, `\nReadWritePaths=-${tmpdir()}\n`);
  } finally {
    await home.remove();
  }
});

test('systemd binds the HTTP address if it has a port and is an IP address', () => {
  const addressOf = (host: string, port = 7117): string | null => {
    const { config } = parseConfig(JSON.stringify({ http: { host, port } }));
    return defineService(pathsOf({}), config).address;
  };
  assert.is(addressOf('127.0.0.1'), '127.0.0.1:7117');
  assert.is(addressOf('::1'), '[::1]:7117');
  assert.is(addressOf('127.0.0.1', 0), null);
  for (const host of ['localhost', 'box.lan', 'fe80::1%eth0']) assert.is(addressOf(host), null, host);
});

test('a $ is escaped in the arguments of the command only', () => {
  const unit = serviceUnit({
    ...DEFINITION,
    command: ['/opt/$a/node', '/opt/$a/svc.cjs'],
    environment: { SVC_HOME: '/srv/$a' },
    writable: ['/srv/$a/data'],
  });
  assert.match(unit, '\nExecStart="/opt/$a/node" "/opt/$$a/svc.cjs"\n');
  assert.match(unit, '\nEnvironment="SVC_HOME=/srv/$a"\n');
  assert.match(unit, '\nReadWritePaths="-/srv/$a/data"\n');
});

unless(noSystemd, test)('systemd finds a program in a folder with odd characters', async () => {
  const home = await makeHome();
  try {
    const folder = join(home.dir, 'a $b 50%');
    mkdirSync(folder);
    const program = join(folder, 'node');
    symlinkSync(process.execPath, program);
    const file = join(home.dir, 'svc.service');
    writeFileSync(file, serviceUnit({ ...DEFINITION, command: [program, 'x'], address: null }));
    const env = childEnvironment({ XDG_RUNTIME_DIR: home.dir });
    const { stdout, stderr } = spawnSync('systemd-analyze', ['--user', 'verify', file], { encoding: 'utf8', env });
    assert.is(stdout + stderr, '');
  } finally {
    await home.remove();
  }
});

test.run();
