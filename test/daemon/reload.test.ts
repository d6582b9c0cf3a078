import { fileURLToPath } from 'node:url';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { ask } from '../http/ask.ts';
import { compiled } from '../support/compiled.ts';
import { spawnDaemon, type DaemonProcess } from '../support/daemon.ts';
import { rejection } from '../support/errors.ts';
import { configure, makeHome, type Home } from '../support/home.ts';
import { waitFor } from '../support/wait.ts';

const entry = compiled(fileURLToPath(new URL('scripted-daemon.ts', import.meta.url)));

interface Context {
  home: Home;
  daemon: DaemonProcess;
  configure(config: object | string): void;
}

const test = suite<Context>('reload');
test.before.each(async (context) => {
  const home = await makeHome();
  context.home = home;
  context.configure = (config) => {
    configure(home, config);
  };
  context.daemon = await spawnDaemon(home, { entry, args: [] }).settled();
});
test.after.each(async ({ home, daemon }) => {
  daemon.kill('SIGKILL');
  await daemon.exit;
  await home.remove();
});

async function statusFor(daemon: DaemonProcess, host: string): Promise<number> {
  const port = Number((await daemon.client.status()).http?.split(':')[1]);
  return (await ask({ port }, '/livez', { headers: { host } })).status;
}

async function configReason(daemon: DaemonProcess): Promise<string> {
  const { conditions } = await daemon.client.ready();
  const { status, reason } = conditions.find(({ name }) => name === 'config') ?? { status: '', reason: '' };
  return `${status}: ${reason}`;
}

test('SIGHUP applies what can be applied, and names the settings that need a restart', async ({
  daemon,
  configure,
}) => {
  assert.is(await statusFor(daemon, 'box.example'), 403);
  assert.not.ok(daemon.log.some(({ level }) => level === 'debug'));

  configure({ http: { allowed_hosts: ['Box.example'] }, log: { level: 'debug' }, engine: { queue_limit: 7 } });
  daemon.kill('SIGHUP');
  const line = await waitFor('the reload', () => daemon.log.find(({ msg }) => msg === 'config reloaded'));
  assert.equal(line['applied'], ['http.allowed_hosts', 'log.level']);
  assert.equal(line['restart_needed'], ['engine.queue_limit']);
  assert.is(await statusFor(daemon, 'box.example'), 200);
  await waitFor('a debug line', () => daemon.log.some(({ level }) => level === 'debug'));
  assert.is((await daemon.client.health()).queue.limit, 256, 'not in force');
  assert.is(await configReason(daemon), 'ok: read from the config file; a restart is needed for engine.queue_limit');
});

test('/control/reload returns what was applied; settings that need a restart are listed until reverted', async (context) => {
  const { daemon, configure } = context;
  configure({ log: { level: 'warn' }, engine: { threads: 3 } });
  assert.equal(await daemon.client.reload(), { applied: ['log.level'], restart_needed: ['engine.threads'] });
  assert.equal(await daemon.client.reload(), { applied: [], restart_needed: ['engine.threads'] });
  configure({});
  assert.equal(await daemon.client.reload(), { applied: ['log.level'], restart_needed: [] });
});

test('an invalid config changes nothing, and is reported until it is corrected', async ({ daemon, configure }) => {
  configure({ http: { allowed_hosts: ['box.example'] } });
  await daemon.client.reload();
  configure('{ "htp": {} }');
  await rejection(() => daemon.client.reload(), 'CONFIG_INVALID', /config\.json:1:3: unknown key "htp"/);
  assert.is(await statusFor(daemon, 'box.example'), 200, 'what was in force stays');
  assert.match(await configReason(daemon), /^warn: .*unknown key "htp"/);
  daemon.kill('SIGHUP');
  await waitFor('two complaints', () => daemon.log.filter(({ msg }) => msg.startsWith('the config')).length === 2);
  assert.is((await daemon.client.ready()).status, 'ready');
  configure({});
  await daemon.client.reload();
  assert.match(await configReason(daemon), /^ok: /);
  assert.is(await statusFor(daemon, 'box.example'), 403);
});

test.run();
