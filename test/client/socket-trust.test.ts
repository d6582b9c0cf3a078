/** The CLI sends nothing to a socket that another user owns or could replace. */
import { chmodSync, chownSync, lchownSync, mkdirSync, mkdtempSync, rmSync, symlinkSync } from 'node:fs';
import { createServer, type Server } from 'node:http';
import { once } from 'node:events';
import { join } from 'node:path';
import { tmpdir } from 'node:os';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { ControlClient } from '../../src/client/control-client.ts';
import { rejection } from '../support/errors.ts';
import { makeHome } from '../support/home.ts';
import { unless } from '../support/skip.ts';
import { svc } from '../support/svc.ts';

const STRANGER = 12_345;
const ready = JSON.stringify({ status: 'ready', state: 'READY', conditions: [] });

/** Poses as a ready daemon and records everything sent to it. */
class Impostor {
  readonly directory = mkdtempSync(join(tmpdir(), 'svc-trust-'));
  readonly runtimeDir = join(this.directory, 'run');
  readonly socketPath = join(this.runtimeDir, 'svc.sock');
  connections = 0;
  #server: Server | undefined;

  async listen(): Promise<this> {
    mkdirSync(this.runtimeDir, { mode: 0o700 });
    const server = createServer((_request, response) => void response.end(ready)).listen(this.socketPath);
    server.on('connection', () => (this.connections += 1));
    await once(server, 'listening');
    this.#server = server;
    return this;
  }

  close(): void {
    this.#server?.closeAllConnections();
    this.#server?.close();
    rmSync(this.directory, { recursive: true, force: true });
  }
}

const test = suite<{ impostor: Impostor }>('socket trust');
test.before.each(async (context) => {
  context.impostor = await new Impostor().listen();
});
test.after.each(({ impostor }) => {
  impostor.close();
});
const asRoot = unless(process.getuid?.() === 0 ? undefined : 'only root can give a file to another user', test);

test('a socket of the same user in a directory of the same user is used', async ({ impostor }) => {
  assert.is((await new ControlClient(impostor.socketPath).ready()).status, 'ready');
});

test('a directory that other users can write to is refused, unless its sticky bit protects the socket', async ({
  impostor,
}) => {
  for (const mode of [0o777, 0o770, 0o702]) {
    chmodSync(impostor.runtimeDir, mode);
    await rejection(() => new ControlClient(impostor.socketPath).ready(), 'FORBIDDEN', /other users can write to/);
  }
  assert.is(impostor.connections, 0);
  chmodSync(impostor.runtimeDir, 0o1777);
  await new ControlClient(impostor.socketPath).ready();
});

asRoot('a socket, a directory or a link that belongs to another user is refused', async ({ impostor }) => {
  const ask = (): Promise<unknown> => new ControlClient(impostor.socketPath).ready();
  chownSync(impostor.socketPath, STRANGER, STRANGER);
  await rejection(ask, 'FORBIDDEN', /svc\.sock belongs to user 12345/);
  chownSync(impostor.socketPath, 0, 0);
  chownSync(impostor.runtimeDir, STRANGER, STRANGER);
  await rejection(ask, 'FORBIDDEN', /run belongs to user 12345/);
  // A link that another user owns and could change at any time; its target belongs to root.
  chownSync(impostor.runtimeDir, 0, 0);
  const link = join(impostor.directory, 'link');
  symlinkSync(impostor.runtimeDir, link);
  await new ControlClient(join(link, 'svc.sock')).ready();
  assert.is(impostor.connections, 1);
  lchownSync(link, STRANGER, STRANGER);
  await rejection(() => new ControlClient(join(link, 'svc.sock')).ready(), 'FORBIDDEN', /link belongs to user 12345/);
  assert.is(impostor.connections, 1);
});

asRoot('no command connects to an impostor', async ({ impostor }) => {
  chownSync(impostor.runtimeDir, STRANGER, STRANGER);
  const home = await makeHome();
  const env = { SVC_SOCKET: impostor.socketPath, HF_TOKEN: 'hf_secret' };
  const commands = [
    ['start'],
    ['status'],
    ['health', '--source', 'socket'],
    ['run', 'a secret prompt'],
    ['run', '--no-start', 'a secret prompt'],
    ['model', 'pull', 'hf:a/b'],
    ['model', 'load', 'builtin'],
    ['provider', 'test', 'openai'],
    ['stop'],
    ['doctor', '--offline'],
  ];
  try {
    for (const args of commands) {
      const { code, stderr, stdout } = await svc(args, { home, env });
      const told = stderr + stdout;
      assert.is(impostor.connections, 0, `svc ${args.join(' ')}`);
      assert.ok(code !== 0, `svc ${args.join(' ')} ended with ${String(code)}: ${told}`);
      assert.match(told, /belongs to user 12345/, `svc ${args.join(' ')}`);
    }
  } finally {
    await home.remove();
  }
});

test.run();
