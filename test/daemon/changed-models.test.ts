/** Models whose files change while a daemon has them loaded: pulled again, given a projector, removed. */
import { copyFileSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { FakeHub } from '../models/pull/fake-hub.ts';
import { assertExit } from '../support/exit.ts';
import { daemonSuite, startIn, type DaemonContext } from '../support/daemon-suite.ts';
import type { DaemonProcess } from '../support/daemon.ts';
import { rejection } from '../support/errors.ts';
import { configure } from '../support/home.ts';
import { projectorPath } from '../support/media-files.ts';
import { modelPath } from '../support/native-engine.ts';
import { svc } from '../support/svc.ts';
import { waitFor } from '../support/wait.ts';

const test: ReturnType<typeof suite<DaemonContext>> = daemonSuite('changed models');
const hub = new FakeHub();
const ID = 'acme/Tiny-GGUF:Q4_K_M';
test.before(async () => {
  await hub.start();
});
test.after(() => hub.stop());

const publish = (model: 'tiny-llama' | 'tiny-qwen2'): void => {
  hub.add('acme/Tiny-GGUF', 'Tiny-Q4_K_M.gguf', readFileSync(modelPath(model)));
};

async function start(context: DaemonContext, models: object = {}): Promise<DaemonProcess> {
  configure(context.home, { engine: { threads: 1 }, models });
  return await startIn(context, { env: { HF_ENDPOINT: hub.endpoint } }).settled();
}

async function run({ home }: DaemonContext, ...args: string[]): Promise<void> {
  assertExit(await svc(args, { home, env: { HF_ENDPOINT: hub.endpoint } }), 0);
}

/** Ids and processes of the engines, without that of the default model. */
async function enginesOf({ client }: DaemonProcess): Promise<{ id: string; pid: number | null; state: string }[]> {
  const { models } = await client.health();
  return models.flatMap(({ id, pid, state }) => (id === 'builtin' ? [] : [{ id, pid, state }]));
}

/** Resolves with the pid of the only engine, once it is loaded and another than `before`. */
const replaced = async (daemon: DaemonProcess, before?: number): Promise<number> =>
  await waitFor('a single engine with the new files', async () => {
    const [first, ...others] = await enginesOf(daemon);
    if (first === undefined || others.length > 0 || first.state !== 'loaded') return false;
    return first.pid !== null && first.pid !== before && first.pid;
  });

async function load({ client }: DaemonProcess, model: string): Promise<void> {
  for await (const _ of client.load(model, new AbortController().signal));
}

test('a model that is pulled again is loaded again, and its old engine ends', async (context) => {
  publish('tiny-llama');
  const daemon = await start(context);
  await run(context, 'model', 'pull', 'hf:acme/Tiny-GGUF');
  await load(daemon, ID);
  const before = await replaced(daemon);
  publish('tiny-qwen2');
  await run(context, 'model', 'pull', 'hf:acme/Tiny-GGUF');
  await replaced(daemon, before);
  await run(context, 'model', 'unload', ID);
  assert.equal(await enginesOf(daemon), []);
});

test('a model that gets a projector is loaded again with it', async (context) => {
  const file = join(context.home.dir, 'sees.gguf');
  copyFileSync(modelPath('tiny-llama'), file);
  await run(context, 'model', 'add', file);
  const daemon = await start(context);
  await load(daemon, 'sees');
  const before = await replaced(daemon);
  await run(context, 'model', 'add', file, '--projector', projectorPath('clip'));
  await replaced(daemon, before);
  const sees = (await daemon.client.models()).find(({ id }) => id === 'sees');
  assert.ok(sees?.capabilities.includes('vision'), String(sees?.capabilities));
});

test('with a model, the engines of the names that are made from it end', async (context) => {
  await run(context, 'model', 'add', modelPath('tiny-llama'), '--name', 'tiny');
  const daemon = await start(context, { long: { from: 'tiny', context_length: 512 } });
  await load(daemon, 'long');
  await replaced(daemon);
  await run(context, 'model', 'rm', 'tiny');
  await waitFor('its engine to end', async () => (await enginesOf(daemon)).length === 0);
  await rejection(() => load(daemon, 'long'), 'MODEL_NOT_FOUND');
});

test.run();
