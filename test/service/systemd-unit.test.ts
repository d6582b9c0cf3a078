/** The text of the systemd units, for paths and addresses that need care. */
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { pathsFrom } from '../../src/home/paths.ts';
import type { ServiceDefinition } from '../../src/service/definition.ts';
import { serviceUnit } from '../../src/service/systemd-unit.ts';

const DEFINITION: ServiceDefinition = {
  command: ['/usr/bin/node', '/opt/svc/bin/svc.cjs', 'serve', '--mode', 'service'],
  environment: {},
  writable: ['/srv/me/.local/share/svc'],
  socket: '/run/user/1000/svc/svc.sock',
  address: '127.0.0.1:7117',
  errorLog: '/srv/me/state/daemon.stderr',
};

test('systemd makes the runtime directory at every start, unless it is in SVC_HOME', () => {
  const variables: Readonly<Record<string, string>> = { XDG_RUNTIME_DIR: '/run/user/1000' };
  const surroundings = { platform: 'linux', home: '/srv/me', tmp: '/tmp', user: '1000' } as const;
  const { runtimeDir } = pathsFrom({ ...surroundings, variable: (name) => variables[name] });
  const unit = serviceUnit(DEFINITION);
  const [, name] = /^RuntimeDirectory=(.*)$/m.exec(unit) ?? [];
  assert.is(`/run/user/1000/${String(name)}`, runtimeDir);
  assert.match(unit, '\nRuntimeDirectoryMode=0700\n');
  // A daemon that is not the service may have its socket there.
  assert.match(unit, '\nRuntimeDirectoryPreserve=yes\n');
  assert.not.match(serviceUnit({ ...DEFINITION, environment: { SVC_HOME: '/srv/me/svc' } }), 'RuntimeDirectory');
});

test.run();
