/** A port that is taken: which one, who holds it, and how to choose another one, in one message and one hint. */
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { chownSync, closeSync, mkdtempSync, openSync, rmSync } from 'node:fs';
import { createServer, type AddressInfo, type Server } from 'node:net';
import { userInfo } from 'node:os';
import { join } from 'node:path';
import * as assert from 'uvu/assert';
import { listen } from '../../src/daemon/listeners.ts';
import { childEnvironment } from '../../src/process/environment.ts';
import { holderOfPort } from '../../src/process/port-holder.ts';
import { SvcError } from '../../src/protocol/errors.ts';
import type { StatusRecord } from '../../src/protocol/records.ts';
import { assertExit } from '../support/exit.ts';
import { configure, makeHome } from '../support/home.ts';
import { OWN_ADDRESS } from '../support/own-address.ts';
import { svc, SVC_COMMAND } from '../support/svc.ts';
import { svcSuite } from '../support/svc-suite.ts';

const test = svcSuite('ports');
const LISTENERS = [
  { section: 'http', label: 'HTTP', variable: 'SVC_HTTP_ADDR' },
  { section: 'grpc', label: 'gRPC', variable: 'SVC_GRPC_ADDR' },
] as const;
/** A user without an entry in /etc/passwd. */
const STRANGER = 54_321;
const AS_STRANGER = ['--reuid', String(STRANGER), '--regid', String(STRANGER), '--clear-groups'];

async function take(): Promise<{ server: Server; port: number }> {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  return { server, port: (server.address() as AddressInfo).port };
}

/** The only message and the only hint of a command. */
function said(stderr: string): { message: string; hint: string } {
  const [message = '', hint = '', ...more] = stderr.trim().split('\n');
  assert.equal(more, []);
  return { message, hint };
}

test('the message names the listener, the hint its holder and the setting or variable', async ({ home }) => {
  const { server, port } = await take();
  try {
    for (const { section, label, variable } of LISTENERS) {
      configure(home, { [section]: { port } });
      for (const value of [undefined, `127.0.0.1:${String(port)}`]) {
        const result = await svc(['start', '--timeout', '150s'], { home, env: { [variable]: value } });
        assertExit(result, 1);
        const { message, hint } = said(result.stderr);
        const what = `cannot listen for ${label}: another program listens on 127.0.0.1:${String(port)}`;
        assert.is(message, `svc: the daemon ended as it started (exit code 78): ${what}`);
        const another = String(port + 10 > 65_535 ? port - 10 : port + 10);
        const choice =
          value === undefined
            ? `choose another port: svc config set ${section}.port ${another}`
            : `choose another port in ${variable}: ${variable}=127.0.0.1:${another}`;
        assert.ok(hint.endsWith(`; ${choice}`), hint);
        if (process.platform === 'linux') assert.match(hint, `(pid ${String(process.pid)}); `);
      }
    }
    if (process.platform === 'linux')
      assert.match(holderOfPort(port) ?? '', new RegExp(`^\\S.* \\(pid ${String(process.pid)}\\)$`));
  } finally {
    server.close();
  }
  assert.is(holderOfPort(port), undefined);
});

/** The hint of a listener that cannot be bound. */
async function hintOf(host: string, port: number, inherited?: number): Promise<string> {
  const error = await listen(createServer(), 'http', { host, port }, true, inherited).catch(
    (thrown: unknown) => thrown,
  );
  assert.instance(error, SvcError);
  return (error as SvcError).hint ?? '';
}

test('the hint fits the cause', async ({ home }) => {
  const elsewhere = await hintOf('192.0.2.1', 7117);
  assert.is(elsewhere, 'listen on an address of this machine: SVC_HTTP_ADDR=127.0.0.1:7117 svc start');
  const file = openSync(join(home.dir, 'file'), 'w');
  try {
    assert.is(await hintOf('', 0, file), 'check the socket that the service manager hands to svc');
  } finally {
    closeSync(file);
  }
});

test('instead of a port that only root may use, one that everybody may use is proposed', async () => {
  if (process.platform === 'win32' || userInfo().uid !== 0) return;
  const server = createServer().listen(1001, OWN_ADDRESS);
  await once(server, 'listening');
  try {
    assert.match(await hintOf(OWN_ADDRESS, 1001), '9001');
  } finally {
    server.close();
  }
});

test('the holder is another daemon of svc', async ({ run }) => {
  if (process.platform !== 'linux') return;
  const first = await run('start', '--timeout', '150s', '--json');
  assertExit(first, 0);
  const { http, pid } = JSON.parse(first.stdout) as StatusRecord;
  const second = await makeHome();
  try {
    const refused = await svc(['serve'], { home: second, env: { SVC_HTTP_ADDR: http ?? '' } });
    assertExit(refused, 78);
    // Only root can look into a daemon, which protects its memory.
    const holder =
      userInfo().uid === 0 ? `svc serve (pid ${String(pid)})` : 'a program of yours, perhaps svc with another SVC_HOME';
    assert.match(refused.stderr, `hint: it is ${holder}; choose another port`);
  } finally {
    await second.remove();
  }
});

test('if several programs listen on a port, the user is that of the program which is named', async () => {
  const listening =
    "const server = require('net').createServer().listen(0, '127.0.0.2', () => console.log(server.address().port))";
  const other = spawn('setpriv', [...AS_STRANGER, process.execPath, '-e', listening]);
  const nothing = (): [] => [];
  const [shown] = (await Promise.race([once(other.stdout, 'data'), once(other, 'exit').then(nothing, nothing)])) as (
    Buffer | undefined
  )[];
  if (shown === undefined) {
    console.log('skipped: no program can be run here as another user');
    return;
  }
  const port = Number(shown.toString());
  const server = createServer().listen(port, '127.0.0.1');
  try {
    await once(server, 'listening');
    assert.match(holderOfPort(port) ?? '', new RegExp(`^\\S+ \\(pid ${String(process.pid)}\\)$`));
  } finally {
    server.close();
    other.kill();
  }
});

test('the holder is a program of another user', async () => {
  const [program = '', ...args] = SVC_COMMAND;
  const trial = spawnSync('setpriv', [...AS_STRANGER, program, ...args, 'version'], { stdio: 'ignore' });
  if (process.platform !== 'linux' || trial.status !== 0) {
    console.log('skipped: svc cannot be run here as another user');
    return;
  }
  const { server, port } = await take();
  // The stranger may not enter the directory of this run.
  const dir = mkdtempSync('/tmp/svc-stranger-');
  try {
    chownSync(dir, STRANGER, STRANGER);
    const env = childEnvironment({
      TMPDIR: dir,
      SVC_HOME: dir,
      SVC_HTTP_ADDR: '127.0.0.1:0',
      SVC_GRPC_ADDR: `127.0.0.1:${String(port)}`,
    });
    const words = [...AS_STRANGER, program, ...args, 'serve'];
    const refused = spawnSync('setpriv', words, { env, encoding: 'utf8' });
    assert.is(refused.status, 78, refused.stderr);
    assert.match(
      refused.stderr,
      `hint: it is a program of the user ${userInfo().username}, perhaps svc; choose another`,
      refused.stderr,
    );
  } finally {
    server.close();
    rmSync(dir, { recursive: true });
  }
});

test.run();
