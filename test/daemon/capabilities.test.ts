/** What a load finds a model able to do stands in its record: after a restart, without a daemon, and in the APIs. */
import { mkdirSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import * as assert from 'uvu/assert';
import type { ModelRecord } from '../../src/protocol/records.ts';
import { HTTP_ROUTES } from '../../src/protocol/routes.ts';
import { daemonSuite, startIn, type DaemonContext } from '../support/daemon-suite.ts';
import type { DaemonProcess } from '../support/daemon.ts';
import type { Home } from '../support/home.ts';
import { modelPath } from '../support/native-engine.ts';
import { svc } from '../support/svc.ts';
import { waitFor } from '../support/wait.ts';

type Shown = Pick<ModelRecord, 'id' | 'capabilities' | 'capabilities_tried'>;

const FILES = {
  caller: 'tiny-qwen2',
  thinker: 'tiny-thinker',
  plain: 'tiny-llama',
  vectors: 'tiny-bert',
  ranker: 'tiny-rank',
} as const;
const FOUND = {
  caller: ['chat', 'completion', 'tools', true],
  thinker: ['chat', 'completion', 'tools', 'thinking', true],
  plain: ['chat', 'completion', true],
  vectors: ['embedding', true],
  ranker: ['rerank', true],
};
const DECLARED = {
  caller: ['chat', 'completion', false],
  thinker: ['chat', 'completion', false],
  plain: ['chat', 'completion', false],
  vectors: ['embedding', false],
  ranker: ['rerank', false],
};

const test = daemonSuite('capabilities');

test.before.each(async ({ home }) => {
  for (const [name, file] of Object.entries(FILES)) await run(home, 'model', 'add', modelPath(file), '--name', name);
});

async function run(home: Home, ...args: string[]): Promise<string> {
  const { code, stdout, stderr } = await svc(args, { home });
  assert.is(code, 0, stderr);
  return stdout;
}

function ofAdded(models: readonly Shown[]): Record<string, unknown[]> {
  const added = models.filter(({ id }) => Object.hasOwn(FILES, id));
  return Object.fromEntries(added.map((model) => [model.id, [...model.capabilities, model.capabilities_tried]]));
}

async function listed(home: Home): Promise<Record<string, unknown[]>> {
  return ofAdded((JSON.parse(await run(home, 'model', 'list', '--json')) as { models: ModelRecord[] }).models);
}

async function overHttp({ client }: DaemonProcess): Promise<Record<string, unknown[]>> {
  const response = await fetch(`http://${String((await client.status()).http)}${HTTP_ROUTES.models}`);
  return ofAdded(((await response.json()) as { data: Shown[] }).data);
}

async function startAndLoadAll(context: DaemonContext): Promise<DaemonProcess> {
  const daemon = await startIn(context).settled();
  for (const name of Object.keys(FILES)) await run(context.home, 'model', 'load', name);
  return daemon;
}

test('after a restart and without a daemon', async (context) => {
  const { home } = context;
  assert.equal(await listed(home), DECLARED);
  assert.match(await run(home, 'model', 'show', 'caller'), /capabilities: +chat, completion \(as its file says;/);
  const daemon = await startAndLoadAll(context);
  assert.equal(await listed(home), FOUND);
  assert.equal(await overHttp(daemon), FOUND);
  // Each of the five, and the default model.
  await waitFor('the findings on disk', async () => {
    const text = await readFile(join(home.dir, 'state', 'capabilities.json'), 'utf8');
    return Object.keys((JSON.parse(text) as { models: object }).models).length === 6;
  });
  daemon.kill('SIGTERM');
  await daemon.exit;

  assert.equal(await listed(home), FOUND);
  assert.match(await run(home, 'model', 'show', 'thinker'), /capabilities: +chat, completion, tools, thinking$/m);
  const again = await startIn(context).settled();
  assert.equal(
    (await again.client.models()).filter(({ loaded }) => loaded !== null).map(({ id }) => id),
    ['builtin'],
    'only the default model is loaded',
  );
  assert.equal(await overHttp(again), FOUND);
});

test('a file that cannot be written hurts no load, and the daemon still knows', async (context) => {
  const { home } = context;
  mkdirSync(join(home.dir, 'state', 'capabilities.json'), { recursive: true, mode: 0o700 });
  await startAndLoadAll(context);
  assert.equal(await listed(home), FOUND);
  for (const name of Object.keys(FILES)) await run(home, 'model', 'unload', name);
  assert.equal(await listed(home), FOUND);
});

test.run();
