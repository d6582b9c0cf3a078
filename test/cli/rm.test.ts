/** `svc model rm` while a daemon runs: it unloads a loaded model first, however the name is spelled; what it refuses. */
import { createHash } from 'node:crypto';
import { existsSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import * as assert from 'uvu/assert';
import { ControlClient } from '../../src/client/control-client.ts';
import { PartialFile } from '../../src/models/pull/partial-file.ts';
import { listUnfinished } from '../../src/models/pull/unfinished.ts';
import { prefixFolder, prefixName } from '../../src/models/store/prefixes.ts';
import type { ModelRecord } from '../../src/protocol/records.ts';
import { assertExit } from '../support/exit.ts';
import { firstText } from '../support/first-text.ts';
import { holdEngines } from '../support/hold.ts';
import type { Home } from '../support/home.ts';
import { modelPath } from '../support/native-engine.ts';
import { svc } from '../support/svc.ts';
import { svcSuite, type SvcContext } from '../support/svc-suite.ts';
import { copyInto } from './foreign-stores.ts';

const test = svcSuite('svc model rm');

const clientOf = (home: Home): ControlClient => new ControlClient(join(home.dir, 'run', 'svc.sock'));

/** Pids of the engines that the daemon runs, by the id of their model. */
async function loadedIn(home: Home): Promise<Record<string, number | null>> {
  const { models } = await clientOf(home).status();
  return Object.fromEntries(models.map(({ id, pid }) => [id, pid]));
}

async function load(home: Home, model: string): Promise<void> {
  for await (const _ of clientOf(home).load(model, new AbortController().signal));
}

async function shown({ run }: SvcContext, typed: string): Promise<ModelRecord> {
  const { stdout, stderr } = await run('model', 'show', typed, '--json');
  assert.match(stdout, /^\{/, stderr);
  return JSON.parse(stdout) as ModelRecord;
}

const TAGGED = 'acme/Tiny-GGUF:Q8_0';

/** Registers a model whose id has a tag, and returns the path of its file. */
async function importTagged({ home }: SvcContext): Promise<string> {
  const user = join(home.dir, 'user');
  const file = copyInto(
    modelPath('tiny-llama'),
    join(user, '.lmstudio', 'models', 'acme', 'Tiny-GGUF', 'tiny-Q8_0.gguf'),
  );
  assertExit(await svc(['model', 'import', '--from', 'lmstudio'], { home, env: { HOME: user } }), 0);
  return file;
}

test('a loaded model is found and unloaded, however its name is spelled', async (context) => {
  const { home, run } = context;
  assertExit(await run('start', '--timeout', '150s'), 0);
  const file = await importTagged(context);
  const prefixes = join(prefixFolder(join(home.dir, 'cache')), prefixName(file));
  for (const typed of ['acme/Tiny-GGUF', 'hf:ACME/tiny-gguf:q8_0', file]) {
    await importTagged(context);
    await load(home, TAGGED);
    const { id, loaded } = await shown(context, typed);
    assert.equal([id, loaded?.pid], [TAGGED, (await loadedIn(home))[TAGGED]], typed);
    assert.ok(existsSync(prefixes), typed);
    assertExit(await run('model', 'rm', typed), 0);
    assert.equal(Object.keys(await loadedIn(home)), ['builtin'], `${typed}: its engine has ended`);
    assert.not(existsSync(prefixes), typed);
  }
});

test('a model in use is refused, however its name is spelled', async (context) => {
  const { home, run } = context;
  assertExit(await run('start', '--timeout', '150s'), 0);
  const file = await importTagged(context);
  const leave = new AbortController();
  const messages = [{ role: 'user' as const, content: 'Hello' }];
  // A bias forces the same token, so that the answer has no end.
  const asked = { model: TAGGED, messages, sampling: { logit_bias: [[100, 100] as [number, number]] }, stop: [] };
  await firstText(clientOf(home).generate(asked, { signal: leave.signal })[Symbol.asyncIterator]());
  const held = await holdEngines(clientOf(home));
  try {
    for (const typed of [TAGGED, 'acme/tiny-gguf']) {
      const refused = await run('model', 'rm', typed);
      assertExit(refused, 75);
      assert.match(refused.stderr, `${TAGGED} is in use by 1 request`);
      assert.ok(existsSync(join(prefixFolder(join(home.dir, 'cache')), prefixName(file))), 'its prefixes stay');
    }
    assert.is((await shown(context, TAGGED)).state, 'loaded');
  } finally {
    held.release();
    leave.abort();
  }
});

test('the built-in model is refused and stays loaded', async ({ home, run }) => {
  assertExit(await run('start', '--timeout', '150s'), 0);
  const before = await loadedIn(home);
  assert.type(before['builtin'], 'number');
  for (const typed of ['builtin', 'BuiltIn']) {
    const refused = await run('model', 'rm', typed);
    assertExit(refused, 2);
    assert.match(refused.stderr, 'the built-in model cannot be removed');
  }
  assert.equal(await loadedIn(home), before);
});

test('a model that shares its file with another leaves the engine and the prefixes to it', async ({ home, run }) => {
  for (const name of ['one', 'two'])
    assertExit(await run('model', 'add', modelPath('tiny-llama'), '--copy', '--name', name), 0);
  assertExit(await run('start', '--timeout', '150s'), 0);
  await load(home, 'one');
  const one = (await clientOf(home).models()).find(({ id }) => id === 'one');
  const prefixes = join(prefixFolder(join(home.dir, 'cache')), prefixName(one?.path ?? ''));
  assert.ok(existsSync(prefixes));
  // It asks nothing: no file is deleted.
  assertExit(await run('model', 'rm', 'Two'), 0);
  const kept = (await clientOf(home).models()).find(({ id }) => id === 'one');
  assert.equal([kept?.loaded?.pid, existsSync(prefixes)], [one?.loaded?.pid, true]);

  assertExit(await run('model', 'add', modelPath('tiny-llama'), '--copy', '--name', 'three'), 0);
  assertExit(await run('model', 'rm', 'one'), 0);
  assert.equal([Object.keys(await loadedIn(home)), existsSync(prefixes)], [['builtin'], true]);
});

test('a model whose file is broken is found, however its name is spelled', async (context) => {
  const { run } = context;
  for (const typed of ['acme/tiny-gguf', 'hf:ACME/Tiny-GGUF:q8_0']) {
    writeFileSync(await importTagged(context), 'no model at all');
    assert.is((await shown(context, typed)).state, 'failed');
    assertExit(await run('model', 'rm', typed), 0);
    assertExit(await run('model', 'show', typed), 1);
  }
});

test('it asks before it deletes a file of the store, and only then, however models.dir is spelled', async ({
  home,
  run,
}) => {
  const dir = join(home.dir, 'elsewhere');
  assertExit(await run('config', 'set', 'models.dir', `${dir}/`), 0);
  assertExit(await run('model', 'add', modelPath('tiny-llama'), '--copy', '--name', 'copied'), 0);
  const file = copyInto(modelPath('tiny-llama'), join(dir, 'own.gguf'));
  assertExit(await run('model', 'add', file, '--name', 'own'), 0);
  const refused = await run('model', 'rm', 'copied');
  assertExit(refused, 2);
  assert.match(refused.stderr, /removing copied deletes /);
  assertExit(await run('model', 'rm', 'own'), 0);
  assert.ok(existsSync(file));
});

/** Leaves a partial download of a model behind. */
async function leavePartial({ home }: SvcContext, model: string): Promise<void> {
  const digest = `sha256:${createHash('sha256').update(model).digest('hex')}`;
  const facts = { digest, sizeBytes: 1000, model, aliases: [] };
  await (await PartialFile.open(join(home.dir, 'cache', 'downloads'), facts)).close();
}

const partialsIn = async ({ home }: SvcContext): Promise<string[]> =>
  (await listUnfinished(join(home.dir, 'cache', 'downloads'))).map(({ id }) => id).sort();

test('an installed model is meant before the partial download of another or of its own newer version', async (context) => {
  const { run } = context;
  await importTagged(context);
  await leavePartial(context, 'acme/Tiny-GGUF:Q4_0');
  await leavePartial(context, TAGGED);
  for (const typed of ['acme/tiny-gguf', TAGGED]) {
    await importTagged(context);
    const removed = await run('model', 'rm', typed);
    assert.is(removed.stdout, `removed ${TAGGED}\n`);
    assert.equal(await partialsIn(context), ['acme/Tiny-GGUF:Q4_0', TAGGED]);
  }
  assert.match((await run('model', 'rm', TAGGED)).stdout, `removed the partial download of ${TAGGED}`);
  assert.match((await run('model', 'rm', 'acme/tiny-gguf')).stdout, 'the partial download of acme/Tiny-GGUF:Q4_0');
  assert.equal(await partialsIn(context), []);
});

test('a partial download is meant by its whole name before an installed model with a tag', async (context) => {
  await importTagged(context);
  await leavePartial(context, 'acme/Tiny-GGUF');
  const removed = await context.run('model', 'rm', 'acme/tiny-gguf');
  assert.is(removed.stdout, 'removed the partial download of acme/Tiny-GGUF\n');
  assert.is((await shown(context, TAGGED)).state, 'installed');
});

test('a name that means several partial downloads is refused, and they are listed', async (context) => {
  await leavePartial(context, 'acme/Tiny-GGUF:Q4_0');
  await leavePartial(context, TAGGED);
  const refused = await context.run('model', 'rm', '--yes', 'acme/tiny-gguf');
  assertExit(refused, 1);
  assert.match(refused.stderr, /there are partial downloads of acme\/Tiny-GGUF:Q[48]_0, acme\/Tiny-GGUF:Q[48]_0/);
  assert.is((await partialsIn(context)).length, 2);
});

test.run();
