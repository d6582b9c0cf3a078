/** `svc restart` of the systemd service: its files are renewed, and the new daemon has the settings of the config. */
import { chmodSync, mkdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import * as assert from 'uvu/assert';
import { ControlClient } from '../../src/client/control-client.ts';
import { childEnvironment } from '../../src/process/environment.ts';
import type { StatusRecord } from '../../src/protocol/records.ts';
import { assertExit } from '../support/exit.ts';
import { configure, type Home } from '../support/home.ts';
import { OWN_ADDRESS } from '../support/own-address.ts';
import { SVC_COMMAND, svc } from '../support/svc.ts';
import { svcSuite } from '../support/svc-suite.ts';
import { waitFor } from '../support/wait.ts';

type Restarted = StatusRecord & { readonly previous: { readonly pid: number } | null };

interface Service {
  /** Text of a unit file now. */
  unit(name: string): string;
  /** Replaces the text of a unit file. */
  write(name: string, text: string): void;
  /** Runs `svc restart`. Returns the status that it prints, and the commands that it gives to systemctl. */
  restart(): Promise<{ status: Restarted; verbs: string[] }>;
}

const test = svcSuite('restart of the service');
const clientOf = (home: Home): ControlClient => new ControlClient(join(home.dir, 'run', 'svc.sock'));
const configOf = (home: Home): string => join(home.dir, 'config', 'config.json');

/** Installs the service of the config. Instead of systemd, a script records commands and starts the daemon. */
async function install(home: Home): Promise<Service> {
  const bin = join(home.dir, 'bin');
  const asked = join(home.dir, 'asked');
  const units = join(home.dir, 'xdg', 'systemd', 'user');
  mkdirSync(bin);
  const serve = [...SVC_COMMAND, 'serve', '--mode', 'service'].map((word) => `'${word}'`).join(' ');
  const script = `#!/bin/sh
test -S '${join(home.dir, 'run', 'svc.sock')}' && serving=' while it serves'
echo "$*$serving" >>'${asked}'
case "$*" in
  *'show'*) echo ActiveState=active; echo UnitFileState=enabled;;
  *'start svc.service') setsid ${serve} >/dev/null 2>&1 & ;;
esac
`;
  writeFileSync(join(bin, 'systemctl'), script, { mode: 0o755 });
  const { PATH = '' } = childEnvironment();
  const env = { SVC_HTTP_ADDR: undefined, XDG_CONFIG_HOME: join(home.dir, 'xdg'), PATH: `${bin}:${PATH}` };
  assertExit(await svc(['service', 'install'], { home, env }), 0);
  await waitFor('the service', async () => (await clientOf(home).ready()).status === 'ready');
  return {
    unit: (name) => readFileSync(join(units, name), 'utf8'),
    write: (name, text) => {
      writeFileSync(join(units, name), text);
    },
    async restart() {
      writeFileSync(asked, '');
      const result = await svc(['restart', '--json'], { home, env });
      assertExit(result, 0);
      const verbs = readFileSync(asked, 'utf8').replaceAll('--user --no-ask-password ', '').replaceAll('--user ', '');
      return { status: JSON.parse(result.stdout) as Restarted, verbs: verbs.trim().split('\n') };
    },
  };
}

test('it is started by systemd, and its unit is renewed if it started another installation', async ({ home }) => {
  if (process.platform !== 'linux') return;
  configure(home, { http: { host: OWN_ADDRESS, port: 7999 } });
  const { unit, write, restart } = await install(home);
  const { pid, mode } = await clientOf(home).status();
  assert.is(mode, 'service');
  const written = unit('svc.service');
  const same = await restart();
  assert.is(same.status.mode, 'service');
  assert.is(same.status.previous?.pid, pid);
  assert.equal(same.verbs, ['daemon-reload while it serves', 'start svc.service']);
  write('svc.service', written.replace(/^ExecStart=\S+/m, 'ExecStart=/old/node'));
  const renewed = await restart();
  assert.equal(renewed.verbs, ['daemon-reload while it serves', 'start svc.service']);
  assert.is(unit('svc.service'), written);
});

test('a new address and another directory of models are applied', async ({ home }) => {
  if (process.platform !== 'linux') return;
  configure(home, { http: { host: OWN_ADDRESS, port: 7998 } });
  const { unit, restart } = await install(home);
  assert.match(unit('svc.socket'), `ListenStream=${OWN_ADDRESS}:7998\n`);
  const models = join(home.dir, 'other', 'models');
  configure(home, { http: { host: OWN_ADDRESS, port: 7999 }, models: { dir: models } });
  const { status, verbs } = await restart();
  assert.is(status.http, `${OWN_ADDRESS}:7999`);
  assert.match(unit('svc.socket'), `ListenStream=${OWN_ADDRESS}:7999\n`);
  assert.match(unit('svc.service'), `\nReadWritePaths=-${models}\n`);
  // The sandbox allows only directories that exist when the service starts.
  assert.ok(statSync(models).isDirectory());
  // systemd would stop the daemon with its socket, without letting requests finish.
  const released = ['enable svc.socket', 'stop svc.socket'];
  assert.equal(verbs, ['daemon-reload while it serves', ...released, 'start svc.service']);
  assert.equal((await restart()).verbs, ['daemon-reload while it serves', 'start svc.service']);
});

test('a restart that was interrupted after it had written the files is made up for', async ({ home }) => {
  if (process.platform !== 'linux') return;
  configure(home, { http: { host: OWN_ADDRESS, port: 7998 } });
  const { unit, write, restart } = await install(home);
  writeFileSync(configOf(home), readFileSync(configOf(home), 'utf8').replace('7998', '7999'));
  write('svc.socket', unit('svc.socket').replace('7998', '7999'));
  const { status, verbs } = await restart();
  assert.is(status.http, `${OWN_ADDRESS}:7999`);
  assert.equal(verbs, ['daemon-reload while it serves', 'enable svc.socket', 'stop svc.socket', 'start svc.service']);
});

test('a directory of models that others share stays accessible to them', async ({ home }) => {
  if (process.platform !== 'linux') return;
  const dir = join(home.dir, 'shared');
  mkdirSync(dir);
  chmodSync(dir, 0o755);
  configure(home, { http: { host: OWN_ADDRESS, port: 7999 }, models: { dir } });
  const { unit } = await install(home);
  assert.is(statSync(dir).mode & 0o777, 0o755);
  assert.match(unit('svc.service'), `\nReadWritePaths=-${dir}\n`);
});

test.run();
