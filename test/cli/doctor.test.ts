/** svc doctor: every injected fault turns its own check and no other. */
import { once } from 'node:events';
import { execFile } from 'node:child_process';
import {
  appendFileSync,
  chmodSync,
  chownSync,
  closeSync,
  mkdirSync,
  openSync,
  readdirSync,
  renameSync,
  statSync,
  utimesSync,
  writeSync,
} from 'node:fs';
import { createServer as createHttpServer } from 'node:http';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { check } from '../../src/cli/commands/doctor/check.ts';
import { checkGrpc } from '../../src/cli/commands/doctor/daemon-checks.ts';
import { checkUser } from '../../src/cli/commands/doctor/machine-checks.ts';
import { checkApiKeys, checkProviders } from '../../src/cli/commands/doctor/provider-check.ts';
import { parseConfig } from '../../src/config/config.ts';
import { childEnvironment } from '../../src/process/environment.ts';
import { builtinModelPath } from '../../src/models/store/builtin.ts';
import { CHECK_NAMES, type DoctorCheck } from '../../src/protocol/doctor.ts';
import type { ProviderRecord, StatusRecord } from '../../src/protocol/records.ts';
import { CONTROL_ROUTES } from '../../src/protocol/routes.ts';
import { ask } from '../http/ask.ts';
import { CLOSED_ADDRESS } from '../support/own-address.ts';
import { assertExit } from '../support/exit.ts';
import { buildBackend } from '../support/gpu-backends.ts';
import { configure, makeHome, type Home } from '../support/home.ts';
import { svc, SVC_COMMAND } from '../support/svc.ts';
import { examine, isBad, parsed } from './doctor-record.ts';
import { read, root } from '../architecture/source-files.ts';

const isRoot = process.getuid?.() === 0;

interface Context {
  home: Home;
  /** Names of the checks that fail or warn here but not in a home without faults. */
  turned(env?: Readonly<Record<string, string>>): Promise<string[]>;
  check(name: string): DoctorCheck;
}
const test = suite<Context>('doctor');

let sound: ReadonlySet<string> | undefined;
test.before(async () => {
  const home = await makeHome();
  const { checks } = await examine(home);
  await home.remove();
  const names = checks.map(({ name }) => name);
  assert.equal(
    names.filter((name) => !name.startsWith('device ')),
    [...CHECK_NAMES],
    'each check is there, in its order',
  );
  sound = new Set(checks.filter((each) => !isBad(each)).map(({ name }) => name));
});
test.before.each(async (context) => {
  const home = await makeHome();
  let checks: readonly DoctorCheck[] = [];
  context.home = home;
  context.turned = async (env) => {
    ({ checks } = await examine(home, env));
    return checks.filter((each) => isBad(each) && (sound?.has(each.name) ?? true)).map(({ name }) => name);
  };
  context.check = (name) => checks.find((each) => each.name === name) as DoctorCheck;
});
test.after.each(async ({ home }) => {
  await svc(['stop', '--force'], { home });
  await home.remove();
});

test('a healthy machine: a CPU kernel runs, its variant is named, the default model produces a token', async ({
  turned,
  check,
}) => {
  assert.equal(await turned(), []);
  assert.match(check('device CPU').value ?? '', /^\d+\.\d GFLOP\/s$/);
  assert.match(check('cpu_features').value ?? '', /^kernels /);
  assert.match(check('addon').detail ?? '', /loads in a process of its own; for \w+-\w+, .*Node-API \d+/);
  assert.match(check('model_store').detail ?? '', /^builtin: sha256:[0-9a-f]{12}$/);
  assert.match(
    check('default_model').detail ?? '',
    /one token in an engine process of its own .*; found: chat, completion/,
  );
  assert.is(check('providers').status, 'skip');
});

test('an invalid line in the config, which leaves the environment', async ({ home, turned, check }) => {
  configure(home, '{\n  "http": {},\n  "engin": {}\n}\n');
  await withListener(async (address) => {
    assert.equal(await turned({ SVC_HTTP_ADDR: address }), ['config', 'http']);
    assert.is(check('http').value, address);
  });
  assert.match(check('config').detail ?? '', /config\.json:3:3: unknown key "engin"/);
});

for (const name of ['http', 'grpc']) {
  test(`a ${name} port in use by another process`, async ({ turned, check }) => {
    const variable = `SVC_${name.toUpperCase()}_ADDR`;
    await withListener(async (address) => {
      assert.equal(await turned({ [variable]: address }), [name]);
      assert.match(check(name).detail ?? '', /EADDRINUSE/);
      assert.match(check(name).hint ?? '', variable);
    });
  });
}

/** Calls with the address of a port that is in use. */
async function withListener(use: (address: string) => Promise<void>): Promise<void> {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as { port: number };
  await use(`127.0.0.1:${String(port)}`).finally(() => server.close());
}

test('a gRPC port of the daemon that listens but gives wrong answers', async () => {
  const server = createHttpServer((_, answer) => void answer.end('this is not gRPC')).listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as { port: number };
  const grpc = `127.0.0.1:${String(port)}`;
  const daemon = { status: { grpc } as StatusRecord, runs: true, serves: true, providers: [] };
  const found = await checkGrpc(parseConfig('').config, { ...daemon, check: check('daemon', 'ok', 'READY') });
  assert.equal([found.name, found.status, found.value], ['grpc', 'fail', grpc]);
  assert.match(found.detail ?? '', /does not answer grpc\.health\.v1/);
  assert.ok(found.hint);
  server.close();
});

/** Leaves a socket file without a listener, as a crash does. */
async function leaveSocket(home: Home): Promise<string> {
  const run = join(home.dir, 'run');
  const path = join(run, 'svc.sock');
  mkdirSync(run, { mode: 0o700 });
  const server = createServer().listen(`${path}.new`);
  await once(server, 'listening');
  renameSync(`${path}.new`, path);
  server.close();
  chmodSync(path, 0o600);
  return path;
}

test('a stale control socket is no problem; one with a wrong mode is', async ({ home, turned, check }) => {
  const path = await leaveSocket(home);
  assert.equal(await turned(), []);
  chmodSync(path, 0o666);
  assert.equal(await turned(), ['control_socket']);
  assert.match(check('control_socket').detail ?? '', /mode 666/);
});

test('a control socket in a directory that other users may enter', async ({ home, turned }) => {
  await leaveSocket(home);
  chmodSync(join(home.dir, 'run'), 0o755);
  assert.equal(await turned(), ['control_socket']);
});

if (isRoot) {
  test('a control socket of another user', async ({ home, turned, check }) => {
    chownSync(await leaveSocket(home), 12_345, 12_345);
    assert.equal(await turned(), ['control_socket']);
    assert.match(check('control_socket').detail ?? '', /belongs to user 12345/);
  });

  test('a full disk', async ({ home }) => {
    const state = join(home.dir, 'state');
    mkdirSync(state);
    // In its own mount namespace, so that the mount disappears with the command.
    const script = 'mount -t tmpfs -o size=16m tmpfs "$0" && exec "$@"';
    const env = childEnvironment(home.env);
    const run = promisify(execFile)(
      'unshare',
      ['--mount', 'sh', '-c', script, state, ...SVC_COMMAND, 'doctor', '--json'],
      { cwd: root, env },
    );
    const { stdout = '', stderr = '' } = (await run.catch((error: unknown) => error)) as {
      stdout?: string;
      stderr?: string;
    };
    // A container may forbid namespaces and mounts.
    if (stdout === '' && /permitted|denied/i.test(stderr)) return;
    const { checks } = parsed(stdout);
    const bad = checks.filter((each) => isBad(each) && sound?.has(each.name));
    assert.equal(
      bad.map(({ name }) => name),
      ['disk'],
    );
    assert.match(bad[0]?.detail ?? '', /16\.8 MB for state and log/);
  });
}

test('a model with damaged content, and one whose file is missing', async ({ home, turned, check }) => {
  assertExit(await svc(['model', 'add', builtinModelPath(), '--copy', '--name', 'copy'], { home }), 0);
  assert.equal(await turned(), []);
  assert.match(check('model_store').detail ?? '', /copy: digest verified/);

  const [name = ''] = readdirSync(join(home.dir, 'models', 'blobs'));
  const blob = join(home.dir, 'models', 'blobs', name);
  const { size, atime, mtime } = statSync(blob);
  const file = openSync(blob, 'r+');
  writeSync(file, 'damage', size - 100);
  closeSync(file);
  utimesSync(blob, atime, mtime);
  assert.equal(await turned(), ['model_store']);
  assert.match(check('model_store').detail ?? '', /copy: (SHA-256 mismatch|its file has changed)/);

  renameSync(blob, `${blob}.away`);
  assert.equal(await turned(), ['model_store']);
  assert.match(check('model_store').detail ?? '', /copy: its file is missing/);
  assert.match(check('model_store').hint ?? '', /svc model rm copy/);
});

test('a missing addon', async ({ home, turned, check }) => {
  assert.equal(await turned({ SVC_ADDON: join(home.dir, 'none.node') }), ['addon']);
  assert.match(check('addon').detail ?? '', /none\.node: not there/);
  for (const name of ['gpu', 'cpu_features', 'default_model']) assert.is(check(name).status, 'skip', name);
});

test('a log that cannot be written', async ({ home, turned }) => {
  mkdirSync(join(home.dir, 'state', 'daemon.log'), { recursive: true });
  assert.equal(await turned(), ['log']);
});

test('a clock that was set back after the log was written', async ({ home, turned, check }) => {
  mkdirSync(join(home.dir, 'state'));
  const line = (time: Date): string => `${JSON.stringify({ level: 'info', time: time.toISOString(), msg: 'x' })}\n`;
  const log = join(home.dir, 'state', 'daemon.log');
  appendFileSync(log, line(new Date(Date.now() - 1000)));
  assert.equal(await turned(), []);
  appendFileSync(log, line(new Date(Date.now() + 86_400_000)));
  assert.equal(await turned(), ['clock']);
  assert.match(check('clock').detail ?? '', /last line of the log is (1d|23h 59m) in the future/);
});

test('invalid paths', async ({ turned }) => {
  assert.equal(await turned({ SVC_SOCKET: 'not/absolute' }), ['paths']);
});

test('a GPU backend that crashes when it is loaded', async ({ home, turned, check }) => {
  const library = await buildBackend('crash', home.dir);
  if (library === null) return;
  assert.equal(await turned({ GGML_BACKEND_PATH: library }), ['gpu']);
  assert.match(check('gpu').detail ?? '', /not used: .*ended by SIGABRT/);
  assert.match(check('default_model').detail ?? '', /one token/);
});

test('a healthy daemon, a draining one, and one that does not answer', async ({ home, turned, check }) => {
  const started = await svc(['start', '--timeout', '150s', '--json'], { home });
  assert.equal(await turned(), []);
  assert.match(check('daemon').value ?? '', /^READY/);
  assert.is(check('grpc').detail, 'svc.v1.Runtime is SERVING');
  const drain = async (on: boolean): Promise<void> => {
    const socketPath = join(home.dir, 'run', 'svc.sock');
    assert.is((await ask({ socketPath }, CONTROL_ROUTES.drain, { body: { drain: on } })).status, 200);
  };
  await drain(true);
  assert.equal(await turned(), ['daemon']);
  assert.match(check('daemon').detail ?? '', /^it drains/);
  await drain(false);

  const { pid } = JSON.parse(started.stdout) as { pid: number };
  process.kill(pid, 'SIGSTOP');
  assert.equal(await turned(), ['daemon']);
  for (const name of ['http', 'grpc']) assert.is(check(name).status, 'skip');
});

function provider(changes: Partial<ProviderRecord>): ProviderRecord {
  return {
    name: 'cloudy',
    kind: 'openai_compatible',
    base_url: null,
    endpoints: [],
    default_model: null,
    credential: { source: 'env', name: 'CLOUDY_KEY', present: true },
    enabled: true,
    default_cloud: false,
    state: 'unknown',
    embedding_model: null,
    last_checked_at: null,
    last_error: null,
    ...changes,
  };
}

test('a provider without its key, an unreachable one, and --offline', async () => {
  const keyless = provider({ credential: { source: 'env', name: 'CLOUDY_KEY', present: false } });
  const offline = { offline: true };
  const online = { offline: false };
  const missing = await checkProviders([keyless], offline);
  assert.is(missing.status, 'fail');
  assert.is(missing.detail, 'cloudy: no key in CLOUDY_KEY');
  assert.is((await checkProviders([{ ...keyless, enabled: false }], offline)).status, 'skip');

  const server = createHttpServer((_, answer) => {
    answer.writeHead(401, { connection: 'close' }).end();
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as { port: number };
  const base_url = `http://127.0.0.1:${String(port)}/v1`;
  assert.is((await checkProviders([provider({ base_url })], online)).status, 'ok');
  server.close();
  const silent = await checkProviders([provider({ base_url: `http://${CLOSED_ADDRESS}/v1` })], online);
  assert.is(silent.status, 'warn');
  assert.is(silent.detail, 'cloudy: 127.0.0.1:1 cannot be reached (ECONNREFUSED)');
  assert.is((await checkProviders([provider({ base_url })], offline)).status, 'ok');
});

test('docs/doctor.md describes exactly the checks that exist', () => {
  const rows = read('docs/doctor.md').matchAll(/^\| `([^`]+)` \|([^|]+)\|([^|]+)\|$/gm);
  const documented = [...rows].map(([, name, looks, mend]) => {
    assert.ok(looks?.trim() && mend?.trim(), name);
    return name;
  });
  assert.equal(documented.sort(), [...CHECK_NAMES, 'device NAME'].sort());
});

test('running as root is a warning, and so is a paid provider that any local program can use', () => {
  assert.is(checkUser(0).status, 'warn');
  assert.is(checkUser(1000).status, 'ok');
  const paid = provider({ credential: { source: 'file', name: 'credentials.json', present: true } });
  const free = provider({ credential: { source: 'none', name: null, present: false } });
  const key = { name: 'app', scope: 'local', sha256: '', created_at: '' } as const;
  assert.is(checkApiKeys([free], []).status, 'ok');
  assert.is(checkApiKeys([paid], []).status, 'warn');
  assert.match(checkApiKeys([paid], []).detail ?? '', /credit at cloudy/);
  assert.is(checkApiKeys([paid], [key]).value, 'app (local)');
});

test.run();
