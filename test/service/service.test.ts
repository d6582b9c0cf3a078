/** Service definitions: their text, systemd-analyze, and a daemon under systemd's socket and notify protocols. */
import { execFileSync, spawn, spawnSync, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { chmodSync, existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { ControlClient } from '../../src/client/control-client.ts';
import { parseConfig } from '../../src/config/config.ts';
import { readDaemonFile } from '../../src/home/daemon-file.ts';
import { childEnvironment } from '../../src/process/environment.ts';
import { makePrivateDirectory, pathsFrom } from '../../src/home/paths.ts';
import { defineService, type ServiceDefinition } from '../../src/service/definition.ts';
import { launchAgent } from '../../src/service/launchd-agent.ts';
import { serviceUnit, servesSocket, socketUnit } from '../../src/service/systemd-unit.ts';
import { ask } from '../http/ask.ts';
import { assertExit } from '../support/exit.ts';
import { makeHome, type Home } from '../support/home.ts';
import { OWN_ADDRESS } from '../support/own-address.ts';
import { seenOf } from '../support/proc.ts';
import { svc } from '../support/svc.ts';
import { waitFor } from '../support/wait.ts';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));
const DEFINITION: ServiceDefinition = {
  command: ['/opt/my node/bin/node', '/opt/svc/bin/svc.cjs', 'serve', '--mode', 'service'],
  environment: { SVC_HOME: '/srv/me/100% "mine"', SVC_LOG_LEVEL: 'debug' },
  writable: ['/srv/me/.local/share/svc', '/run/user/1000/svc'],
  shared: ['/srv/me/.config/svc'],
  socket: '/run/user/1000/svc/svc.sock',
  address: '127.0.0.1:7117',
  errorLog: '/srv/me/state/daemon.stderr',
};

interface Context {
  home: Home;
  children: ChildProcess[];
}

const test = suite<Context>('service');
test.before.each(async (context) => {
  context.home = await makeHome();
  context.children = [];
});
test.after.each(async ({ home, children }) => {
  for (const child of children) {
    if (child.exitCode !== null || child.signalCode !== null) continue;
    child.kill('SIGKILL');
    await once(child, 'exit');
  }
  await home.remove();
});

/** True if `program` is installed; otherwise prints that the test is skipped. */
function has(program: string): boolean {
  const found = spawnSync(program, ['--version']).status === 0;
  if (!found) console.log(`skipped: ${program} is not installed`);
  return found;
}

async function freePort(): Promise<number> {
  const server = createServer().listen(0, OWN_ADDRESS);
  await once(server, 'listening');
  const { port } = server.address() as { port: number };
  server.close();
  await once(server, 'close');
  return port;
}

/** Runs systemd-analyze, which reads user units only if there is a runtime directory. */
function analyse({ home }: Context, ...args: readonly string[]): { status: number | null; output: string } {
  const { status, stdout, stderr } = spawnSync('systemd-analyze', ['--user', ...args], {
    encoding: 'utf8',
    env: childEnvironment({ XDG_RUNTIME_DIR: home.dir }),
  });
  return { status, output: `${stdout}${stderr}` };
}

test('the unit quotes characters that are special to systemd', () => {
  const unit = serviceUnit(DEFINITION);
  assert.match(unit, '\nExecStart="/opt/my node/bin/node" /opt/svc/bin/svc.cjs serve --mode service\n');
  assert.match(unit, '\nEnvironment="SVC_HOME=/srv/me/100%% \\"mine\\""\n');
  assert.match(unit, '\nLimitCORE=0\n');
  assert.match(unit, '\nReadWritePaths=-/run/user/1000/svc\n');
  assert.match(unit, '\nRequires=svc.socket\n');
  assert.not.match(serviceUnit({ ...DEFINITION, address: null }), 'svc.socket', 'no address, no socket');
  assert.ok(servesSocket(unit, DEFINITION.socket));
  assert.not.ok(servesSocket(unit, '/run/user/1000/svc/other.sock'));
});

test('systemd accepts the units, and the sandbox is below 3.0', (context) => {
  if (!has('systemd-analyze')) return;
  const definition = { ...DEFINITION, command: [process.execPath, 'x'], environment: { SVC_LOG_LEVEL: 'debug' } };
  const files = { 'svc.service': serviceUnit(definition), 'svc.socket': '' };
  files['svc.socket'] = socketUnit(DEFINITION.address as string);
  for (const [name, text] of Object.entries(files)) writeFileSync(join(context.home.dir, name), text);

  const units = Object.keys(files).map((name) => join(context.home.dir, name));
  const verdict = analyse(context, 'verify', ...units);
  assert.equal(verdict, { status: 0, output: '' });
  const security = analyse(context, 'security', '--offline=true', join(context.home.dir, 'svc.service'));
  const exposure = Number(/exposure level for svc\.service: ([\d.]+)/.exec(security.output)?.[1]);
  assert.ok(exposure < 3, security.output);
});

test('the system call filter allows everything that a daemon and its engine call', async (context) => {
  if (!has('strace') || !has('systemd-analyze')) return;
  if (spawnSync('strace', ['-qq', '-o', '/dev/null', 'true']).status !== 0) {
    console.log('skipped: processes may not be traced here');
    return;
  }
  const trace = join(context.home.dir, 'calls');
  const child = spawn(
    'strace',
    ['-f', '-qq', '-o', trace, '-e', 'trace=all', process.execPath, '--import', 'tsx', 'src/cli/main.ts', 'serve'],
    { cwd: ROOT, env: childEnvironment(context.home.env), stdio: 'ignore' },
  );
  context.children.push(child);
  const client = new ControlClient(join(context.home.dir, 'run', 'svc.sock'));
  await waitFor('the daemon', async () => (await client.ready()).status === 'ready');
  const request = { messages: [{ role: 'user' as const, content: 'go' }], max_tokens: 4, sampling: {}, stop: [] };
  for await (const event of client.generate(request)) assert.ok(event.type);
  const ended = once(child, 'exit');
  await client.stop(1000);
  await ended;

  const called = new Set([...readFileSync(trace, 'latin1').matchAll(/^\d+ +(\w+)\(/gm)].map(([, name]) => name ?? ''));
  assert.ok(called.has('execve') && called.size > 30, `${String(called.size)} calls`);
  // Calls that are refused with EPERM without harm: NUMA placement of threads and memory, memory protection keys
  // (unused after the first refusal), and dropping capabilities, of which the unit leaves none.
  const spared = [
    'capset',
    'sched_setaffinity',
    'setpriority',
    'mbind',
    'set_mempolicy',
    'pkey_alloc',
    'pkey_mprotect',
  ];
  const allowed = new Set(spared);
  for (const [, not, groups] of serviceUnit(DEFINITION).matchAll(/^SystemCallFilter=(~?)(.*)$/gm)) {
    const named = (groups ?? '').split(' ');
    for (const name of [
      ...named.filter((each) => !each.startsWith('@')),
      ...expand(...named.filter((each) => each.startsWith('@'))),
    ]) {
      if (not === '') allowed.add(name);
      else if (!spared.includes(name)) allowed.delete(name);
    }
  }
  assert.equal(
    [...called].filter((name) => !allowed.has(name)),
    [],
  );
});

test('a model answers when only the directories of the unit are writable', async (context) => {
  if (spawnSync('unshare', ['-Urm', 'true']).status !== 0) {
    console.log('skipped: no user namespaces here');
    return;
  }
  const { home } = context;
  const variables: Readonly<Record<string, string>> = home.env;
  const paths = pathsFrom({
    ...{ platform: process.platform, home: '/', tmp: '/tmp', user: '0' },
    variable: (name) => variables[name],
  });
  const { writable, shared } = defineService(paths, parseConfig('').config);
  for (const directory of [...writable, ...shared]) makePrivateDirectory(directory);
  const script = [
    'set -e',
    ...[...writable, ...shared].map((directory) => `mount --bind ${directory} ${directory}`),
    'mount -o remount,ro,bind /',
    `! touch ${home.dir}/x 2>/dev/null`,
    `exec setpriv --no-new-privs --bounding-set=-all --inh-caps=-all "$@"`,
  ].join('\n');
  const daemon = [process.execPath, '--import', 'tsx', 'src/cli/main.ts', 'serve', '--mode', 'service'];
  const child = spawn('unshare', ['-Urm', 'sh', '-c', script, 'sh', ...daemon], {
    cwd: ROOT,
    env: childEnvironment(home.env),
    stdio: ['ignore', 'ignore', 'pipe'],
  });
  context.children.push(child);
  let stderr = '';
  child.stderr.setEncoding('utf8').on('data', (text: string) => (stderr += text));
  const client = new ControlClient(paths.socketPath);
  await waitFor('the daemon', async () => (await client.ready()).status === 'ready').catch((cause: unknown) => {
    throw new Error(stderr, { cause });
  });
  const request = { messages: [{ role: 'user' as const, content: 'go' }], max_tokens: 4, sampling: {}, stop: [] };
  let end = '';
  for await (const event of client.generate(request)) end = event.type;
  assert.is(end, 'finish');
  const copy = { source: 'builtin', destination: 'other' };
  assert.is((await ask(paths, '/api/copy', { body: copy })).status, 200, 'the config is writable');
  const ended = once(child, 'exit');
  await client.stop(1000);
  assert.equal(await ended, [0, null], stderr);
  assert.is(readDaemonFile(paths.daemonFile)?.exit?.code, 0);
  assert.not.match(stderr, /EROFS|EACCES|cannot write/);
});

/** Expands groups of system calls, including nested groups. */
function expand(...groups: readonly string[]): Set<string> {
  const calls = new Set<string>();
  const waiting = [...groups];
  for (let group = waiting.pop(); group !== undefined; group = waiting.pop()) {
    const listed = execFileSync('systemd-analyze', ['syscall-filter', group], { encoding: 'utf8' });
    for (const line of listed.split('\n').slice(1)) {
      const name = line.trim();
      if (name.startsWith('@')) waiting.push(name);
      else if (name !== '' && !name.startsWith('#')) calls.add(name);
    }
  }
  return calls;
}

test('the launchd agent is a property list with the command and the environment', (context) => {
  const plist = launchAgent({ ...DEFINITION, environment: { SVC_HOME: '/a & <b>' } });
  assert.match(plist, '<string>/opt/my node/bin/node</string>\n    <string>/opt/svc/bin/svc.cjs</string>');
  assert.match(plist, '<key>SVC_HOME</key>\n    <string>/a &amp; &lt;b&gt;</string>');
  assert.match(plist, '<key>SuccessfulExit</key>\n    <false/>');
  assert.match(plist, '<key>Umask</key>\n  <integer>63</integer>');
  const file = join(context.home.dir, 'agent.plist');
  writeFileSync(file, plist);
  if (process.platform === 'darwin') execFileSync('plutil', ['-lint', file]);
  if (!has('python3')) return;
  const script = 'import plistlib,sys,json; print(json.dumps(plistlib.load(open(sys.argv[1],"rb"))))';
  const read = JSON.parse(execFileSync('python3', ['-c', script, file], { encoding: 'utf8' })) as Record<
    string,
    unknown
  >;
  assert.equal(read['ProgramArguments'], DEFINITION.command);
  assert.equal(read['EnvironmentVariables'], { SVC_HOME: '/a & <b>' });
  assert.is(read['RunAtLoad'], true);
});

test('a connection to a systemd socket starts the daemon, which takes over both sockets', async (context) => {
  if (!has('systemd-socket-activate')) return;
  const { home } = context;
  const runtime = join(home.dir, 'run');
  mkdirSync(runtime, { mode: 0o700 });
  const port = await freePort();
  const address = `${OWN_ADDRESS}:${String(port)}`;
  const socketPath = join(runtime, 'svc.sock');
  const kept = Object.keys(childEnvironment()).flatMap((name) => ['-E', name]);
  const child = spawn(
    'systemd-socket-activate',
    [
      ...['-l', address, '-l', socketPath, '--fdname=http:control', ...kept],
      ...['-E', `SVC_HOME=${home.dir}`, process.execPath, '--import', 'tsx', 'src/cli/main.ts', 'serve'],
      ...['--mode', 'service'],
    ],
    { cwd: ROOT, env: childEnvironment(), stdio: 'ignore' },
  );
  context.children.push(child);
  await waitFor('the sockets', () => existsSync(socketPath));
  chmodSync(socketPath, 0o600);
  // The first connection waits for the daemon and is answered.
  assert.is((await ask({ host: OWN_ADDRESS, port }, '/livez')).status, 200);
  const client = new ControlClient(socketPath);
  const status = await client.status();
  assert.is(status.http, address);
  assert.is(status.mode, 'service');
  assert.is(status.pid, child.pid, 'the process that systemd watches');
  const ended = once(child, 'exit');
  await client.stop(0);
  assert.equal(await ended, [0, null]);
  assert.ok(existsSync(socketPath), 'it is not ours to remove');
});

const NOTIFIED = `
import socket, struct, sys
s = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
s.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
s.bind(sys.argv[1])
print('bound', flush=True)
while True:
    text, sender, *_ = s.recvmsg(4096, 1024)
    print(struct.unpack('iii', sender[0][2])[0], text.decode().replace('\\n', ' '), flush=True)
`;

test('systemd is notified of readiness, watchdog signs of life, and stopping', async (context) => {
  if (!has('python3')) return;
  const { home } = context;
  const socket = join(home.dir, 'notify');
  const listener = spawn('python3', ['-c', NOTIFIED, socket], { stdio: ['ignore', 'pipe', 'inherit'] });
  context.children.push(listener);
  const told: string[] = [];
  createInterface({ input: listener.stdout as NodeJS.ReadableStream }).on('line', (line) => told.push(line));
  await waitFor('the listener', () => told.length > 0);

  const child = spawn(process.execPath, ['--import', 'tsx', 'src/cli/main.ts', 'serve', '--mode', 'service'], {
    cwd: ROOT,
    env: childEnvironment({ ...home.env, NOTIFY_SOCKET: socket, WATCHDOG_USEC: '400000' }),
    stdio: 'ignore',
  });
  context.children.push(child);
  const client = new ControlClient(join(home.dir, 'run', 'svc.sock'));
  await waitFor('READY', () => told.some((line) => line.includes('READY=1')));
  await waitFor('the state READY', async () => (await client.ready()).state === 'READY');
  const beats = (): number => told.filter((line) => line.includes('WATCHDOG=1')).length;
  await waitFor('three signs of life', () => beats() >= 3);

  const engine = (await client.status()).models[0]?.pid as number;
  const environment = seenOf(engine, 'environ');
  assert.not.match(environment, 'NOTIFY_SOCKET');
  assert.not.match(environment, 'WATCHDOG');

  const ended = once(child, 'exit');
  child.kill('SIGTERM');
  await ended;
  await waitFor('STOPPING', () => told.some((line) => line.includes('STOPPING=1')));
  // The unit accepts notifications only from the main process.
  assert.equal(
    told.slice(1).filter((line) => !line.startsWith(`${String(child.pid)} `)),
    [],
  );
  assert.match(serviceUnit(DEFINITION), '\nNotifyAccess=main\n');
});

test('install writes the units, status reports them, uninstall leaves nothing', async (context) => {
  if (!has('systemctl')) return;
  const { home } = context;
  const config = join(home.dir, 'xdg');
  // Points to a user systemd that does not exist, so that the real one is not touched.
  const env = { XDG_CONFIG_HOME: config, XDG_RUNTIME_DIR: join(home.dir, 'none'), DBUS_SESSION_BUS_ADDRESS: undefined };
  const run = (...args: string[]) => svc(args, { home, env });
  const before = await run('service', 'status', '--json');
  assertExit(before, 3);
  assert.equal(JSON.parse(before.stdout), {
    ...{ manager: 'systemd', installed: false, current: null, enabled: null, active: null, files: [] },
  });

  const env2 = { ...env, SVC_HTTP_ADDR: '127.0.0.1:7999' };
  const installed = await svc(['service', 'install', '--json'], { home, env: env2 });
  assertExit(installed, 0);
  assert.match(installed.stderr, 'is not running: once it is');
  const { files, started } = JSON.parse(installed.stdout) as { files: string[]; started: boolean };
  assert.is(started, false);
  assert.equal(
    files,
    ['svc.service', 'svc.socket'].map((name) => join(config, 'systemd', 'user', name)),
  );
  assert.match(readFileSync(files[1] as string, 'utf8'), 'ListenStream=127.0.0.1:7999');
  assert.match(readFileSync(files[0] as string, 'utf8'), `Environment=SVC_HOME=${home.dir}\n`);

  const status = JSON.parse((await svc(['service', 'status', '--json'], { home, env: env2 })).stdout) as object;
  assert.equal(status, { manager: 'systemd', installed: true, current: true, enabled: null, active: null, files });
  const other = await run('service', 'status');
  assert.match(other.stderr, 'other settings');

  // An installed service is started through systemd, which fails here and gives its reason.
  const start = await svc(['start', '--timeout', '150s'], { home, env: env2 });
  assertExit(start, 1);
  assert.match(start.stderr, /ended as it started/);

  assertExit(await run('service', 'uninstall'), 0);
  assert.equal(
    files.filter((file) => existsSync(file)),
    [],
  );
  assert.match((await run('service', 'uninstall')).stdout, 'not installed');
});

test('systemctl is called with the right arguments in order; on failure its own message is shown', async ({ home }) => {
  // A fake systemctl that records its arguments and fails where the test says.
  const bin = join(home.dir, 'bin');
  const asked = join(home.dir, 'asked');
  mkdirSync(bin);
  const script = `#!/bin/sh
echo "$*" >>'${asked}'
case "$*" in *"$REFUSE"*) test -n "$REFUSE" && echo 'Unit is masked.' >&2 && exit 1;; esac
case "$*" in *show*) echo ActiveState=active; echo UnitFileState="\${STATE:-enabled}";; esac
exit 0
`;
  writeFileSync(join(bin, 'systemctl'), script, { mode: 0o755 });
  const { PATH = '' } = childEnvironment();
  const env = { XDG_CONFIG_HOME: join(home.dir, 'xdg'), PATH: `${bin}:${PATH}`, SVC_HTTP_ADDR: '127.0.0.1:7999' };
  const verbs = (): string[] => {
    const lines = existsSync(asked) ? readFileSync(asked, 'utf8').trim().split('\n') : [];
    writeFileSync(asked, '');
    return lines
      .map((line) => line.replace('--user --no-ask-password ', ''))
      .filter((line) => !line.startsWith('show'));
  };
  const install = await svc(['service', 'install'], { home, env });
  assert.equal([install.code, install.stdout], [0, 'svc runs as a service of systemd\n'], install.stderr);
  assert.equal(verbs(), [
    'daemon-reload',
    'enable svc.service',
    'enable svc.socket',
    'stop svc.socket',
    'restart svc.service',
  ]);
  const status = await svc(['service', 'status'], { home, env });
  assertExit(status, 0);
  assert.match(status.stdout, /^active: +yes$/m);

  const refused = await svc(['service', 'install'], { home, env: { ...env, REFUSE: 'restart' } });
  assertExit(refused, 1);
  assert.match(refused.stderr, /systemctl .*restart svc\.service failed: Unit is masked\.\nhint: .*journalctl --user/);
  verbs();
  assertExit(await svc(['service', 'uninstall'], { home, env }), 0);
  assert.equal(verbs(), ['disable --now svc.socket', 'disable --now svc.service', 'daemon-reload']);

  const nothing = { ...env, REFUSE: 'enable svc.service', STATE: 'disabled' };
  assertExit(await svc(['service', 'install'], { home, env: nothing }), 1);
  assert.equal(verbs().slice(-3), ['disable --now svc.socket', 'disable --now svc.service', 'daemon-reload']);
  assert.equal(readdirSync(join(env.XDG_CONFIG_HOME, 'systemd', 'user')), []);
});

test('the service is not installed while a daemon runs that is not the service', async ({ home }) => {
  const env = { XDG_CONFIG_HOME: join(home.dir, 'xdg') };
  assertExit(await svc(['start', '--timeout', '150s'], { home }), 0);
  try {
    const install = await svc(['service', 'install'], { home, env });
    assertExit(install, 1);
    assert.match(install.stderr, /running already, not as a service .*\nhint: stop it first: svc stop/);
    assert.not.ok(existsSync(join(env.XDG_CONFIG_HOME, 'systemd')));
  } finally {
    await svc(['stop', '--force'], { home });
  }
});

test.run();
