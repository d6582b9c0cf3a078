/**
 * A path of the daemon is replaced by another kind of file while it runs. Only what needs that path fails: the daemon
 * keeps running and answering, names the path in a condition, and recovers once the path is restored.
 */
import { execFileSync } from 'node:child_process';
import { lstatSync, mkdirSync, readdirSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import * as assert from 'uvu/assert';
import type { CheckStatus, ConditionName, ReadyRecord } from '../../src/protocol/records.ts';
import { HTTP_ROUTES } from '../../src/protocol/routes.ts';
import { ask, type To } from '../http/ask.ts';
import { daemonSuite, startIn, type DaemonContext } from '../support/daemon-suite.ts';
import type { DaemonProcess } from '../support/daemon.ts';
import { replacePath, restorePath } from '../support/replace-path.ts';
import { waitFor } from '../support/wait.ts';

const test = daemonSuite('file-troubles');

/** What a path is replaced by: created at `at`, for `path`. */
const KINDS: Record<string, (at: string, path: string) => void> = {
  'a file': (at) => writeFileSync(at, ''),
  'a FIFO': (at) => execFileSync('mkfifo', [at]),
  'a loop of links': (at, path) => symlinkSync(path, at),
  'a link to nothing': (at, path) => symlinkSync(`${path}.nothing`, at),
  'a directory': (at) => mkdirSync(at),
};

interface Place {
  /** Path relative to the home. */
  readonly path: string;
  readonly kinds: readonly string[];
  readonly condition: ConditionName;
  /** True if prompts are answered meanwhile; without the model list none can be. */
  readonly answers: boolean;
  readonly overSocket?: boolean;
  /** True if the daemon writes the file again by itself, perhaps before the condition shows. */
  readonly heals?: boolean;
}

const FOR_A_DIRECTORY = ['a file', 'a FIFO', 'a loop of links', 'a link to nothing'];
const FOR_A_FILE = ['a directory', 'a FIFO', 'a loop of links'];
const PLACES: readonly Place[] = [
  { path: 'state', kinds: FOR_A_DIRECTORY, condition: 'storage', answers: true },
  { path: 'cache', kinds: FOR_A_DIRECTORY, condition: 'storage', answers: true },
  // Over TCP no client is admitted while the API keys cannot be read.
  { path: 'data', kinds: FOR_A_DIRECTORY, condition: 'storage', answers: true, overSocket: true },
  { path: 'run', kinds: ['a file', 'a FIFO', 'a loop of links'], condition: 'listeners', answers: true },
  { path: 'run/svc.sock', kinds: ['a file', 'a FIFO', 'a directory'], condition: 'listeners', answers: true },
  { path: 'models', kinds: ['a file', 'a FIFO', 'a loop of links'], condition: 'model_store', answers: false },
  { path: 'state/daemon.log', kinds: FOR_A_FILE, condition: 'storage', answers: true },
  { path: 'state/daemon.json', kinds: FOR_A_FILE, condition: 'storage', answers: true, heals: true },
  {
    path: `state/usage-${new Date().toISOString().slice(0, 7)}.jsonl`,
    kinds: FOR_A_FILE,
    condition: 'storage',
    answers: true,
  },
];

interface Daemon {
  readonly process: DaemonProcess;
  readonly host: string;
  readonly port: number;
}

async function start(context: DaemonContext): Promise<Daemon> {
  for (const directory of ['models', 'cache', 'data']) mkdirSync(join(context.home.dir, directory));
  const process = startIn(context);
  await process.settled();
  const [host = '', port] = ((await process.client.status()).http ?? '').split(':');
  return { process, host, port: Number(port) };
}

async function conditionOf(to: To, name: ConditionName): Promise<{ status: CheckStatus; reason: string }> {
  const { conditions } = (await ask(to, HTTP_ROUTES.readyz)).json() as ReadyRecord;
  return conditions.find((each) => each.name === name) ?? { status: 'fail', reason: 'there is no such condition' };
}

async function prompt(to: To): Promise<number> {
  const body = { messages: [{ role: 'user', content: 'hi' }], max_tokens: 1 };
  return (await ask(to, HTTP_ROUTES.chatCompletions, { method: 'POST', body })).status;
}

/** Replaces the path by each kind in turn and restores it; resolves when the daemon has recovered. */
async function spoil(
  daemon: Daemon,
  home: string,
  { path, kinds, condition, answers, overSocket = false, heals = false }: Place,
): Promise<void> {
  const place = join(home, path);
  const to = overSocket ? { socketPath: daemon.process.socketPath } : daemon;
  for (const kind of kinds) {
    const what = `${kind} in the place of ${path}`;
    replacePath(place, (at) => KINDS[kind]?.(at, place));
    const told = await waitFor(`the condition: ${what}`, async () => {
      const found = await conditionOf(to, condition);
      if (found.status !== 'ok') return found;
      return heals && lstatSync(place).isFile() && { reason: `${place} is a file again` };
    });
    assert.ok(told.reason.includes(place), `${what}: ${told.reason}`);
    assert.is((await prompt(to)) === 200, answers, what);
    assert.is((await ask(to, '/nope')).status, 404, what);

    restorePath(place);
    await waitFor(`the end of ${what}`, async () => (await conditionOf(to, condition)).status === 'ok');
    await waitFor(`an answer after ${what}`, async () => (await prompt(daemon)) === 200);
  }
}

test('what the daemon writes again in the middle of a replacement does not stay', ({ home }) => {
  const place = join(home.dir, 'place');
  mkdirSync(join(place, 'old'), { recursive: true });
  const writeAgain = (): string | undefined => mkdirSync(join(place, 'new'), { recursive: true });
  replacePath(place, (at) => {
    writeAgain();
    writeFileSync(at, '');
  });
  assert.ok(lstatSync(place).isFile());
  restorePath(place);
  assert.equal(readdirSync(place), ['old']);
});

test('one daemon survives every replacement of every path', async (context) => {
  const daemon = await start(context);
  for (const place of PLACES) await spoil(daemon, context.home.dir, place);
  await waitFor('the control socket', async () => (await daemon.process.client.status()).pid === daemon.process.pid);
  await daemon.process.client.stop(0);
  assert.equal(await daemon.process.exit, { code: 0, signal: null });
  // No internal task of the daemon failed with an unexpected error.
  const unexpected = daemon.process.log.filter(
    ({ level, msg }) => level === 'fatal' || (level === 'error' && msg.endsWith(' failed') && msg !== 'request failed'),
  );
  assert.equal(unexpected, []);
});

test('a daemon shuts down cleanly while its state directory is a FIFO', async (context) => {
  const daemon = await start(context);
  const state = join(context.home.dir, 'state');
  replacePath(state, (at) => KINDS['a FIFO']?.(at, state));
  daemon.process.kill('SIGTERM');
  assert.equal(await daemon.process.exit, { code: 0, signal: null });
});

test.run();
