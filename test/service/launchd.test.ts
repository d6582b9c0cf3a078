/** The commands for launchd, run against a launchctl that records them and answers as macOS 14 does. */
import { chmodSync, existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { serviceManager } from '../../src/service/manager.ts';
import { makeHome, type Home } from '../support/home.ts';

/**
 * The user's domain exists unless `no-domain` does; the agent is loaded while `loaded` exists. bootout returns 36 and
 * leaves the agent there: the daemon drains, until it was looked at twice.
 */
const LAUNCHCTL = `#!/bin/sh
cd "$(dirname "$0")"
echo "$*" >> calls
case "$1 $2" in
  print\\ */svc.daemon)
    [ -e loaded ] || { echo 'Could not find service "svc.daemon" in domain for user gui' >&2; exit 113; }
    printf 'gui/501/svc.daemon = {\\n\\tactive count = 1\\n\\tstate = running\\n}\\n'
    if [ -e seen ]; then rm loaded seen; elif [ -e draining ]; then mv draining seen; fi ;;
  print\\ *)
    [ ! -e no-domain ] || { echo 'Could not find domain for user gui' >&2; exit 125; } ;;
  bootout\\ *)
    [ -e loaded ] || { echo 'Boot-out failed: 3: No such process' >&2; exit 3; }
    touch draining; echo 'Boot-out failed: 36: Operation now in progress' >&2; exit 36 ;;
  bootstrap\\ *)
    [ ! -e loaded ] || { echo 'Bootstrap failed: 5: Input/output error' >&2; exit 5; }
    touch loaded ;;
esac
`;

interface Context {
  home: Home;
  bin: string;
  path: string | undefined;
}

const test = suite<Context>('launchd');
test.before.each(async (context) => {
  context.home = await makeHome();
  context.bin = join(context.home.dir, 'bin');
  mkdirSync(context.bin);
  const program = join(context.bin, 'launchctl');
  writeFileSync(program, LAUNCHCTL);
  chmodSync(program, 0o755);
  context.path = process.env['PATH'];
  process.env['PATH'] = `${context.bin}:${context.path ?? ''}`;
});
test.after.each(async ({ home, path }) => {
  process.env['PATH'] = path;
  await home.remove();
});

const calls = ({ bin }: Context): string[] => {
  const file = join(bin, 'calls');
  const lines = existsSync(file) ? readFileSync(file, 'utf8').trim().split('\n') : [];
  rmSync(file, { force: true });
  return lines;
};
const domain = `gui/${String(process.getuid?.())}`;
const agent = `${domain}/svc.daemon`;

test('an agent is loaded from its file, and one that runs is stopped first', async (context) => {
  const manager = serviceManager('darwin');
  assert.is(manager.name, 'launchd');
  const [file = ''] = manager.paths;
  assert.match(file, /\/Library\/LaunchAgents\/svc\.daemon\.plist$/);
  await manager.enable();
  assert.equal(calls(context), [
    `bootout ${agent}`,
    `print ${agent}`,
    `enable ${agent}`,
    `bootstrap ${domain} ${file}`,
  ]);
  await manager.enable();
  assert.equal(calls(context), [
    `bootout ${agent}`,
    // Until it is gone: another one cannot be loaded beside it.
    ...[`print ${agent}`, `print ${agent}`, `print ${agent}`],
    `enable ${agent}`,
    `bootstrap ${domain} ${file}`,
  ]);
});

test('its state is read, and null without a session at the screen', async (context) => {
  const manager = serviceManager('darwin');
  assert.equal(await manager.state(), { enabled: false, active: false });
  await manager.enable();
  assert.equal(await manager.state(), { enabled: true, active: true });
  await manager.disable();
  assert.equal(await manager.state(), { enabled: false, active: false });
  writeFileSync(join(context.bin, 'no-domain'), '');
  assert.is(await manager.state(), null);
});

test('a refusal of launchd is an error with its words', async (context) => {
  const manager = serviceManager('darwin');
  writeFileSync(
    join(context.bin, 'launchctl'),
    '#!/bin/sh\necho "Bootstrap failed: 5: Input/output error" >&2\nexit 5\n',
  );
  const message = await manager.enable().then(String, (error: unknown) => (error as Error).message);
  assert.is(message, `launchctl enable ${agent} failed: Bootstrap failed: 5: Input/output error`);
});

test.run();
