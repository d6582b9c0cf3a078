/** Fairness and isolation between API keys on a real daemon and engine: tokens, queue slots, cached prefixes. */
import { existsSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import * as assert from 'uvu/assert';
import { addKey } from '../../src/home/key-file.ts';
import { ask } from '../http/ask.ts';
import { daemonSuite, startIn, type DaemonContext } from '../support/daemon-suite.ts';
import type { DaemonProcess } from '../support/daemon.ts';
import { enginePid, hold, type Held } from '../support/hold.ts';
import { configure } from '../support/home.ts';
import { waitFor } from '../support/wait.ts';

const test = daemonSuite('shares');

interface Client {
  readonly key: string;
  readonly port: number;
}

async function startWithKeys(context: DaemonContext): Promise<{ daemon: DaemonProcess; alice: Client; bob: Client }> {
  const daemon = await startIn(context).settled();
  const port = Number((await daemon.client.status()).http?.split(':').at(-1));
  const keyFile = join(context.home.dir, 'data', 'keys.json');
  const [alice, bob] = [await addKey(keyFile, 'alice', 'inference'), await addKey(keyFile, 'bob', 'inference')];
  return { daemon, alice: { key: alice.key, port }, bob: { key: bob.key, port } };
}

async function chat({ key, port }: Client, content: string, fields: object = {}): Promise<{ cached: number }> {
  const body = { messages: [{ role: 'user', content }], max_tokens: 4, temperature: 0, ...fields };
  const answer = await ask({ port }, '/v1/chat/completions', { body, headers: { authorization: `Bearer ${key}` } });
  assert.is(answer.status, 200, answer.text);
  const { usage } = answer.json() as { usage: { prompt_tokens_details: { cached_tokens: number } } };
  return { cached: usage.prompt_tokens_details.cached_tokens };
}

/** Number of reused tokens as the engine counts them, whichever key may see it. */
async function reused(daemon: DaemonProcess): Promise<number> {
  return (await daemon.client.health()).models[0]?.steps?.cached_tokens ?? 0;
}

const SECRET = 'The password of the vault in the cellar is a long one, and Alice alone knows it. '.repeat(8);
const prefixes = ({ home }: DaemonContext): string => join(home.dir, 'cache', 'prefixes');
const saved = (context: DaemonContext): string[] =>
  (existsSync(prefixes(context)) ? readdirSync(prefixes(context), { recursive: true, encoding: 'utf8' }) : []).filter(
    (name) => name.endsWith('.prefix'),
  );

test('cached_tokens does not reveal prompts of another key', async (context) => {
  const { daemon, alice, bob } = await startWithKeys(context);
  assert.is((await chat(alice, SECRET)).cached, 0);
  assert.ok((await chat(alice, SECRET)).cached > 64);
  const before = await reused(daemon);
  assert.is((await chat(bob, SECRET)).cached, 0, 'a right guess');
  await waitFor('the engine to have reused it', async () => (await reused(daemon)) > before + 64);
  assert.ok((await chat(bob, SECRET)).cached > 64, 'his own by now');
});

test('a prompt of the command line is reused over HTTP, whose first cached_tokens does not tell', async (context) => {
  const daemon = await startIn(context).settled();
  const port = Number((await daemon.client.status()).http?.split(':').at(-1));
  const messages = [{ role: 'user' as const, content: SECRET }];
  const request = { messages, max_tokens: 4, sampling: { temperature: 0 } };
  // The control socket, as svc run uses it.
  assert.is((await daemon.client.generate(request).result()).usage?.cached_tokens, 0);
  const before = await reused(daemon);
  const overHttp = async (): Promise<number> => {
    const body = { messages, max_tokens: 4, temperature: 0 };
    const { usage } = (await ask({ port }, '/v1/chat/completions', { body })).json();
    return usage.prompt_tokens_details.cached_tokens as number;
  };
  assert.is(await overHttp(), 0);
  const all = await waitFor('the engine to have reused it', async () => {
    const count = (await reused(daemon)) - before;
    return count > 64 && count;
  });
  // The same template and options on both doors: as many tokens as on the same door.
  assert.is(await overHttp(), all);
  assert.is((await daemon.client.generate(request).result()).usage?.cached_tokens, all);
});

test('with engine.prefix_sharing key nothing is reused between keys, also after a restart', async (context) => {
  configure(context.home, { engine: { prefix_sharing: 'key' } });
  const { daemon, alice, bob } = await startWithKeys(context);
  await chat(alice, SECRET);
  await waitFor('the prefix to be written', () => saved(context).length === 1);
  assert.is((await chat(bob, SECRET)).cached, 0);
  await waitFor("the other key's to be written", () => saved(context).length === 2);
  assert.ok((await chat(alice, SECRET)).cached > 64);
  daemon.kill('SIGTERM');
  await daemon.exit;

  const next = await startIn(context).settled();
  const port = Number((await next.client.status()).http?.split(':').at(-1));
  const carol = await addKey(join(context.home.dir, 'data', 'keys.json'), 'carol', 'inference');
  assert.is((await chat({ key: carol.key, port }, SECRET)).cached, 0);
  assert.ok((await chat({ ...alice, port }, SECRET)).cached > 64);
});

test('requests with store: false do not reach the disk', async (context) => {
  const { daemon, alice } = await startWithKeys(context);
  await chat(alice, SECRET, { store: false });
  await chat(alice, SECRET, { store: false });
  // Prefixes are written in the order in which requests end, so the first would be on disk before this one.
  await chat(alice, 'Another one, which may be kept as long as there is room for it. '.repeat(8));
  await waitFor('the prefix to be written', () => saved(context).length > 0);
  daemon.kill('SIGTERM');
  await daemon.exit;
  assert.is(saved(context).length, 1);
});

test('a prefix file made with another secret is a miss, and deleted', async (context) => {
  const { daemon, alice } = await startWithKeys(context);
  await chat(alice, SECRET);
  await waitFor('the prefix to be written', () => saved(context).length === 1);
  const keyFile = join(context.home.dir, 'state', 'prefix.key');
  assert.is(statSync(keyFile).mode & 0o777, 0o600);
  const key = readFileSync(keyFile, 'latin1');
  for (const part of ['cmdline', 'environ']) {
    const { models } = await daemon.client.status();
    const pid = String(models[0]?.pid);
    if (process.platform === 'linux') assert.not.match(readFileSync(`/proc/${pid}/${part}`, 'latin1'), key);
  }
  daemon.kill('SIGTERM');
  await daemon.exit;
  // As if the files had come from another machine.
  writeFileSync(keyFile, key.split('').reverse().join(''));
  const next = await startIn(context).settled();
  await waitFor('the file to be deleted', () => saved(context).length === 0);
  const port = Number((await next.client.status()).http?.split(':').at(-1));
  assert.is((await chat({ ...alice, port }, SECRET)).cached, 0);
});

test('stored prefixes are deleted when engine.prefix_disk_bytes becomes 0, without a restart', async (context) => {
  const { daemon, alice } = await startWithKeys(context);
  await chat(alice, SECRET);
  await waitFor('the prefix to be written', () => saved(context).length === 1);
  configure(context.home, { engine: { prefix_disk_bytes: 0 } });
  assert.equal(await daemon.client.reload(), { applied: ['engine.prefix_disk_bytes'], restart_needed: [] });
  await waitFor('the folder to be empty', () => saved(context).length === 0);
  await chat(alice, `${SECRET} And again.`);
  daemon.kill('SIGTERM');
  await daemon.exit;
  assert.equal(saved(context), []);
});

/** Forces an answer that cannot end early. */
const LONG = {
  max_tokens: 400,
  response_format: {
    type: 'json_schema',
    json_schema: { name: 'numbers', schema: { type: 'array', items: { type: 'integer' }, minItems: 60, maxItems: 60 } },
  },
};

/** One key queues sixty requests; a request of another key must not wait for all of them. */
test('a key that queues many requests does not keep another one waiting', async (context) => {
  configure(context.home, { engine: { max_sequences: 4 } });
  const { daemon, alice, bob } = await startWithKeys(context);
  const pid = await enginePid(daemon.client);
  const queued = async (): Promise<number> => {
    const { active, waiting } = (await daemon.client.health()).queue;
    return active + waiting;
  };
  let ended = 0;
  let held: Held | undefined;
  const all = Promise.all(
    Array.from({ length: 60 }, (_, index) =>
      chat(alice, `Tell story number ${String(index)}.`, LONG).then(() => {
        ended += 1;
        held ??= hold(pid);
      }),
    ),
  );
  all.catch(() => undefined); // if an assertion below ends the test first, its own error is reported
  // From its first answer on the engine stands still until the other key's request waits in its queue, too.
  await waitFor('the first to end', () => held);
  await waitFor('all other answers to arrive', async () => ended + (await queued()) === 60);
  const before = ended;
  assert.ok(before < 40, 'most of them wait');
  const short = chat(bob, 'Hello?', { max_tokens: 1 });
  await waitFor('the short one to wait', async () => (await queued()) === 61 - before);
  held?.release();
  await short;
  // Requests that ran when it arrived, and their successors, may have ended; not all that were queued before it.
  assert.ok(ended - before <= 12, `${String(ended - before)} of 60 passed`);
  await all;
});

test.run();
