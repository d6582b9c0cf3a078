import { existsSync, mkdirSync, renameSync, statSync } from 'node:fs';
import { once } from 'node:events';
import { createServer, type Server } from 'node:net';
import { join } from 'node:path';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import type { Paths } from '../../src/home/paths.ts';
import { becomeTheDaemon } from '../../src/daemon/lock.ts';
import { SvcError } from '../../src/protocol/errors.ts';
import { assertExit } from '../support/exit.ts';
import { makeHome, type Home } from '../support/home.ts';
import { svc } from '../support/svc.ts';

interface Context {
  home: Home;
  paths: Paths;
  servers: Server[];
}

const test = suite<Context>('lock');
async function makeContext(): Promise<Context> {
  const home = await makeHome();
  const { dir } = home;
  const [stateDir, runtimeDir] = [join(dir, 'state'), join(dir, 'run')];
  const rest = {
    configFile: '',
    modelsDir: '',
    dataDir: '',
    keyFile: '',
    credentialsFile: '',
    cacheDir: '',
    logFile: '',
  };
  const daemonFile = join(stateDir, 'daemon.json');
  const paths = { ...rest, stateDir, runtimeDir, daemonFile, socketPath: join(runtimeDir, 'svc.sock') };
  return { home, paths, servers: [] };
}

async function dispose({ home, servers }: Context): Promise<void> {
  for (const server of servers) server.close();
  await home.remove();
}

test.before.each(async (context) => {
  Object.assign(context, await makeContext());
});
test.after.each(dispose);

/** Leaves a stale socket, as a crash does: the file exists and no process listens. */
async function leaveDeadSocket({ runtimeDir, socketPath }: Paths): Promise<void> {
  mkdirSync(runtimeDir, { recursive: true });
  const server = createServer().listen(socketPath);
  await once(server, 'listening');
  renameSync(socketPath, `${socketPath}.aside`);
  server.close();
  await once(server, 'close');
  renameSync(`${socketPath}.aside`, socketPath);
}

async function attempt({ paths, servers }: Context): Promise<string> {
  const server = createServer();
  servers.push(server);
  try {
    return await becomeTheDaemon(paths, server, () => Promise.resolve('won'));
  } catch (error) {
    if (error instanceof SvcError) return error.code;
    throw error;
  }
}

test('of many concurrent starts exactly one takes over the socket of a dead daemon', async (context) => {
  for (let round = 0; round < 5; round++) {
    await leaveDeadSocket(context.paths);
    const outcomes = await Promise.all(Array.from({ length: 6 }, () => attempt(context)));
    assert.equal(outcomes.sort(), [...Array.from({ length: 5 }, () => 'ALREADY_RUNNING'), 'won']);
    for (const server of context.servers.splice(0)) {
      if (server.listening) await new Promise((resolve) => server.close(resolve));
    }
  }
});

test('only the owner may access the socket, whatever the umask', async (context) => {
  const umask = process.umask(0);
  try {
    assert.is(await attempt(context), 'won');
  } finally {
    process.umask(umask);
  }
  assert.is(statSync(context.paths.socketPath).mode & 0o777, 0o600);
});

test('the setup step runs before another start can probe, and its failure fails the start', async (context) => {
  const { paths, servers } = context;
  const server = createServer();
  servers.push(server);
  const failure = new SvcError('CONFIG_INVALID', 'no');
  const elsewhere = await makeContext();
  try {
    assert.is(await attempt(elsewhere), 'won');
    let second: Promise<string> | undefined;
    const first = becomeTheDaemon(paths, server, async () => {
      second = attempt(context);
      // Begins later and goes through all steps, in a home that nobody locks: the second could have probed by then.
      assert.is(await attempt(elsewhere), 'ALREADY_RUNNING');
      server.close();
      throw failure;
    });
    assert.is(await first.catch((error: unknown) => error), failure);
    assert.is(await second, 'won');
  } finally {
    await dispose(elsewhere);
  }
});

test('a second start leaves the prefix folders of the first daemon, which its engines use', async ({
  home,
  paths,
  servers,
}) => {
  mkdirSync(paths.runtimeDir, { mode: 0o700 });
  const server = createServer((socket) => socket.destroy()).listen(paths.socketPath);
  servers.push(server);
  await once(server, 'listening');
  const used = join(home.dir, 'cache', 'prefixes', 'a'.repeat(32));
  mkdirSync(used, { recursive: true });
  const second = await svc(['serve'], { home });
  assertExit(second, 1);
  assert.match(second.stderr, 'svc is already running');
  assert.ok(existsSync(used));
});

test.run();
