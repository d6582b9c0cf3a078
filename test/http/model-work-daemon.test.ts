/** Quantising, verifying and importing over HTTP, with a real daemon: events, cancellation, refusals. */
import { chownSync, readdirSync, readFileSync, truncateSync, writeFileSync } from 'node:fs';
import { open as openFile } from 'node:fs/promises';
import type { IncomingMessage } from 'node:http';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { addKey } from '../../src/home/key-file.ts';
import type { ImportEvent, ImportRecord } from '../../src/protocol/model/import.ts';
import type { QuantizeEvent } from '../../src/protocol/model/quantize.ts';
import type { VerifyEvent, VerifyResult } from '../../src/protocol/model/verify.ts';
import type { ModelRecord } from '../../src/protocol/records.ts';
import { HTTP_ROUTES, type ErrorEvent } from '../../src/protocol/routes.ts';
import { copyInto, writeHub, writeOllama } from '../cli/foreign-stores.ts';
import { spawnDaemon, type DaemonProcess } from '../support/daemon.ts';
import { assertExit } from '../support/exit.ts';
import { childrenOf, holdNextChild } from '../support/held-child.ts';
import { configure, makeHome, type Home } from '../support/home.ts';
import { modelPath } from '../support/native-engine.ts';
import { svc, type SvcResult } from '../support/svc.ts';
import { waitFor } from '../support/wait.ts';
import { ask, open, type Answer } from './ask.ts';

const { runtimeQuantize, runtimeVerify, runtimeImport, runtimeModels } = HTTP_ROUTES;
const F16 = modelPath('tiny-gemma');
const Q4 = modelPath('tiny-qwen2');
const LLAMA = modelPath('tiny-llama');
/** A sparse file of this size is read for minutes, unless the reading is cancelled. */
const HUGE_BYTES = 256 * 1024 ** 3;
const LIBRARY = 'registry.ollama.ai/library';

interface Context {
  home: Home;
  daemon: DaemonProcess;
  port: number;
  /** Folder of a user, with the stores of other programs. */
  user: string;
  headers: Record<string, string>;
  svc(...args: string[]): Promise<SvcResult>;
  post(path: string, body: object): Promise<Answer>;
  /** Sends a request and returns its answer as soon as it has begun. */
  begin(path: string, body: object): Promise<IncomingMessage>;
}
const test = suite<Context>('long work over HTTP');

test.before(async (context) => {
  context.home = await makeHome();
  context.user = join(context.home.dir, 'user');
  const env = {
    HOME: context.user,
    OLLAMA_MODELS: join(context.user, 'ollama'),
    XDG_CACHE_HOME: undefined,
    HF_HOME: undefined,
    HF_HUB_CACHE: undefined,
  };
  context.svc = (...args) => svc(args, { home: context.home, env });
  for (const [name, file] of Object.entries({ gemma: F16, small: Q4 }))
    assertExit(await context.svc('model', 'add', file, '--copy', '--name', name), 0);
  configure(context.home, { models: { pirate: { from: 'gemma', system: 'Answer like a pirate.' } } });
  context.daemon = await spawnDaemon(context.home, { env }).settled();
  context.port = Number((await context.daemon.client.status()).http?.split(':').at(-1));
  const { key } = await addKey(join(context.home.dir, 'data', 'keys.json'), 'deploy', 'admin');
  context.headers = { authorization: `Bearer ${key}` };
  const { port, headers } = context;
  context.post = (path, body) => ask({ port }, path, { body, headers });
  context.begin = (path, body) => open({ port }, path, { body, headers });
});
test.after(async ({ daemon, home }) => {
  daemon.kill('SIGTERM');
  const { code } = await daemon.exit;
  await home.remove();
  assert.is(code, 0);
});

const linesOf = <Event>({ status, text }: Answer): Event[] => {
  assert.is(status, 200, text);
  return text
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => JSON.parse(line) as Event);
};
const blobsOf = ({ home }: Context): string[] => readdirSync(join(home.dir, 'models', 'blobs')).sort();
const errorOf = (answer: Answer): [number, string, string, string | undefined] => {
  const { code, message, param } = answer.json().error as Record<string, string>;
  return [answer.status, code ?? '', message ?? '', param];
};

test('a model is quantised: the events of the command, and the record of the new model', async (context) => {
  const { post, svc: run } = context;
  const events = linesOf<QuantizeEvent>(await post(runtimeQuantize, { model: 'pirate', type: 'q8_0', name: 'made' }));
  const [planned] = events;
  assert.ok(planned?.type === 'planned');
  assert.equal([planned.model, planned.source, planned.quantization], ['made', 'gemma', 'Q8_0']);
  assert.ok(planned.expected_bytes > 0 && planned.expected_bytes < planned.source_bytes);
  const progress = events.filter((event) => event.type === 'progress');
  assert.ok(progress.length > 0);
  for (const event of progress) {
    assert.ok(event.done_bytes <= event.total_bytes);
    assert.ok(event.bytes_per_second === null || event.bytes_per_second >= 0);
  }
  const last = events.at(-1);
  assert.ok(last?.type === 'quantized');
  const shown = JSON.parse((await run('model', 'show', 'made', '--json')).stdout) as ModelRecord;
  assert.equal([last.model.id, last.model.digest], [shown.id, shown.digest]);
  const command = await run('model', 'quantize', 'gemma', 'Q8_0', '--name', 'again', '--json');
  const told = linesOf<QuantizeEvent>({ ...(await post(runtimeVerify, { model: 'made' })), text: command.stdout });
  assert.equal(Object.keys(told.at(-1) ?? {}), Object.keys(last));
  assert.equal(Object.keys(told[0] ?? {}), Object.keys(planned));
});

test('what cannot be quantised is refused as by the command, before any work', async (context) => {
  const { post } = context;
  const before = blobsOf(context);
  const refused = async (body: object): Promise<[number, string, string, string | undefined]> =>
    errorOf(await post(runtimeQuantize, body));
  const cases: [object, number, string, RegExp, string][] = [
    [{ model: 'nothing', type: 'Q8_0' }, 404, 'MODEL_NOT_FOUND', /nothing/, 'model'],
    [{ model: `file:${F16}`, type: 'Q8_0' }, 404, 'MODEL_NOT_FOUND', /not found/, 'model'],
    [{ model: F16, type: 'Q8_0' }, 404, 'MODEL_NOT_FOUND', /not found/, 'model'],
    [{ model: 'gemma', type: 'Q4_K_N' }, 400, 'INVALID_REQUEST', /no type "Q4_K_N"/, 'type'],
    [{ model: 'gemma', type: 'iq2_xxs' }, 400, 'INVALID_REQUEST', /importance matrix/, 'type'],
    [{ model: 'gemma', type: 'Q8_0', name: 'SMALL' }, 400, 'INVALID_REQUEST', /name exists: small/, 'name'],
    [{ model: 'gemma', type: 'Q8_0', name: 'pirate' }, 400, 'INVALID_REQUEST', /the config gives the name/, 'name'],
    [{ model: 'gemma', type: 'Q8_0', name: '../x' }, 400, 'INVALID_REQUEST', /cannot be the name/, 'name'],
    [{ model: 'small', type: 'Q8_0' }, 400, 'INVALID_REQUEST', /quantised already \(Q4_0\)/, 'model'],
    [{ model: 'small', type: 'Q4_0', allow_requantize: true }, 400, 'INVALID_REQUEST', /is Q4_0 already/, 'type'],
    [{ model: 'gemma' }, 400, 'INVALID_REQUEST', /type/, 'type'],
    [{ model: 'gemma', type: 'Q8_0', allow_requantize: 'yes' }, 400, 'INVALID_REQUEST', /./, 'allow_requantize'],
  ];
  for (const [body, status, code, message, param] of cases) {
    const error = await refused(body);
    assert.equal([error[0], error[1], error[3]], [status, code, param], JSON.stringify(body));
    assert.match(error[2], message);
  }
  assert.equal(blobsOf(context), before);
  const allowed = await post(runtimeQuantize, { model: 'small', type: 'Q5_0', allow_requantize: true });
  assert.is(linesOf<QuantizeEvent>(allowed).at(-1)?.type, 'quantized');
});

test('a client that goes away cancels the quantising, and nothing is kept; a second one meanwhile is refused', async (context) => {
  const { post, begin, daemon } = context;
  const body = { model: 'gemma', type: 'Q6_K', name: 'cancelled' };
  const before = blobsOf(context);
  // The first child computes the size only.
  const held = holdNextChild(daemon.pid, { skip: 1 });
  const answer = await begin(runtimeQuantize, body);
  const [first] = await firstLines<QuantizeEvent>(answer);
  assert.is(first?.type, 'planned');
  const child = await held;
  const [status, code] = errorOf(await post(runtimeQuantize, { ...body, name: 'other' }));
  assert.equal([status, code], [429, 'BUSY']);
  answer.destroy();
  await waitFor('the child to end', () => !childrenOf(daemon.pid).includes(child));
  await waitFor('the file to be removed', () => blobsOf(context).join() === before.join());
  const listed = (await ask({ port: context.port }, runtimeModels, { headers: context.headers })).text;
  assert.not.match(listed, /cancelled/);
  const again = await waitFor('the next one', async () => {
    const next = await post(runtimeQuantize, body);
    return next.status === 200 && next;
  });
  assert.is(linesOf<QuantizeEvent>(again).at(-1)?.type, 'quantized');
});

test('a model is verified: its digest, with progress; damage is reported with what to do', async (context) => {
  const { post, svc: run } = context;
  const events = linesOf<VerifyEvent | VerifyResult>(await post(runtimeVerify, { model: 'pirate' }));
  const [progress, verified, finished] = [events[0], events.at(-2), events.at(-1)];
  assert.ok(progress?.type === 'progress' && progress.model === 'gemma' && progress.total_bytes > 0);
  assert.ok(verified?.type === 'verified' && verified.state === 'ok' && verified.model === 'gemma');
  assert.equal(finished, { type: 'finished', verified: 1, damaged: [], leftovers: null });
  assert.is(linesOf<VerifyResult>(await post(runtimeVerify, { model: 'builtin' })).at(-1)?.type, 'finished');

  assertExit(await run('model', 'add', LLAMA, '--copy', '--name', 'hurt'), 0);
  const { path } = JSON.parse((await run('model', 'show', 'hurt', '--json')).stdout) as ModelRecord;
  const file = await openFile(path, 'r+');
  await file.write(Buffer.from('damage'), 0, 6, 100_000);
  await file.close();
  const damaged = linesOf<VerifyEvent | VerifyResult>(await post(runtimeVerify, { model: 'hurt' }));
  const found = damaged.at(-2);
  assert.ok(found?.type === 'verified' && found.state === 'damaged');
  assert.equal([found.problems[0]?.file, found.problems[0]?.kind], [path, 'digest']);
  assert.match(found.hint ?? '', /svc model rm --yes hurt/);
  assert.equal((damaged.at(-1) as VerifyResult).damaged, ['hurt']);

  for (const model of ['nothing', `file:${path}`, path])
    assert.equal(errorOf(await post(runtimeVerify, { model })).slice(0, 2), [404, 'MODEL_NOT_FOUND']);
  assert.is(errorOf(await post(runtimeVerify, {}))[3], 'model');
});

test('a client that goes away ends the reading; a second one meanwhile is refused', async (context) => {
  const { post, begin, home, svc: run } = context;
  const place = copyInto(LLAMA, join(home.dir, 'huge.gguf'));
  assertExit(await run('model', 'add', place, '--name', 'huge'), 0);
  truncateSync(place, HUGE_BYTES);
  const registry = join(home.dir, 'models', 'registry.json');
  const known = JSON.parse(readFileSync(registry, 'utf8')) as { models: { id: string; size_bytes: number }[] };
  for (const entry of known.models) if (entry.id === 'huge') entry.size_bytes = HUGE_BYTES;
  writeFileSync(registry, JSON.stringify(known));

  const answer = await begin(runtimeVerify, { model: 'huge' });
  const [first] = await firstLines<VerifyEvent>(answer);
  assert.ok(first?.type === 'progress' && first.model === 'huge' && first.done_bytes < first.total_bytes);
  assert.equal(errorOf(await post(runtimeVerify, { model: 'gemma' })).slice(0, 2), [429, 'BUSY']);
  answer.destroy();
  await waitFor('the next one', async () => (await post(runtimeVerify, { model: 'gemma' })).status === 200);
  const { damaged } = JSON.parse(readFileSync(registry, 'utf8')) as { damaged: string[] };
  assert.is(damaged.length, 1, 'only the one of the test before');
  assertExit(await run('model', 'rm', '--yes', 'huge'), 0);
});

test('an import lists what other programs have, and registers what is named', async (context) => {
  const { post, user, svc: run } = context;
  assertExit(await run('model', 'rm', '--yes', 'hurt'), 0);
  const ollama = join(user, 'ollama');
  writeOllama(ollama, `${LIBRARY}/gem/latest`, { model: { file: F16 }, system: { text: 'Be brief.' } });
  writeOllama(ollama, `${LIBRARY}/llama/latest`, {
    model: { file: LLAMA },
    system: { text: 'Be brief.' },
  });
  writeHub(join(user, '.cache', 'huggingface', 'hub'), 'acme/Qwen-GGUF', 'b'.repeat(40), { 'qwen-Q4_0.gguf': Q4 });
  copyInto(modelPath('tiny-bert'), join(user, '.lmstudio', 'models', 'acme', 'Bert-GGUF', 'bert-F16.gguf'));

  const found = linesOf<ImportEvent>(await post(runtimeImport, {}));
  assert.equal(
    found.flatMap((event) => (event.type === 'looking' ? [event.program] : [])),
    ['ollama', 'lmstudio', 'lmstudio', 'hf'],
  );
  const record = finishedOf(found);
  assert.ok(record.dry_run);
  const sources = ['ollama:gem:latest', 'ollama:llama:latest', 'lmstudio:acme/Bert-GGUF/bert-F16.gguf'];
  assert.equal(
    record.models.map(({ source, state }) => [source, state]).sort(),
    [
      [sources[0], 'planned'],
      [sources[1], 'planned'],
      [sources[2], 'planned'],
      ['hf:acme/Qwen-GGUF:qwen-Q4_0.gguf', 'present'],
    ].sort(),
  );
  const dry = JSON.parse((await run('model', 'import', '--dry-run', '--json')).stdout) as ImportRecord;
  assert.equal({ ...record }, { type: 'finished', ...dry });

  const events = linesOf<ImportEvent>(await post(runtimeImport, { models: sources.slice(1) }));
  const progress = events.filter((event) => event.type === 'progress');
  assert.is(progress.at(-1)?.done_bytes, progress.at(-1)?.total_bytes);
  assert.equal(
    finishedOf(events)
      .models.map(({ id, state }) => [id, state])
      .sort(),
    [
      ['acme/Bert-GGUF:F16', 'imported'],
      ['llama:latest', 'imported'],
    ],
  );
  const models = JSON.parse((await ask({ port: context.port }, runtimeModels, { headers: context.headers })).text) as {
    models: ModelRecord[];
  };
  const llama = models.models.find(({ id }) => id === 'llama:latest');
  assert.is(llama?.settings?.system, 'Be brief.', 'the daemon has read the config again');
  assert.ok(llama?.path.startsWith(ollama));
  assert.is(
    models.models.some(({ id }) => id === 'gem:latest'),
    false,
  );
});

test('an import takes no paths, and nothing that was not found', async ({ post, user }) => {
  const outside = copyInto(LLAMA, join(user, 'elsewhere.gguf'));
  for (const source of ['ollama:none', outside, `file:${outside}`, '../elsewhere.gguf', '']) {
    const events = linesOf<ImportEvent | ErrorEvent>(
      await post(runtimeImport, { models: ['ollama:gem:latest', source] }),
    );
    const last = events.at(-1);
    assert.ok(last?.type === 'error' && last.error.code === 'MODEL_NOT_FOUND', source);
  }
  for (const models of [[], 'ollama:gem:latest', [1], Array.from({ length: 1001 }, () => 'x')])
    assert.equal(errorOf(await post(runtimeImport, { models })).slice(0, 2), [400, 'INVALID_REQUEST']);
  const record = finishedOf(linesOf<ImportEvent>(await post(runtimeImport, {})));
  assert.is(record.models.find(({ source }) => source === 'ollama:gem:latest')?.state, 'planned');
});

test('a client that goes away ends the import; what was not registered is not', async (context) => {
  const { post, begin, user } = context;
  const place = copyInto(modelPath('tiny-rank'), join(user, '.lmstudio', 'models', 'acme', 'Huge', 'huge-F16.gguf'));
  truncateSync(place, HUGE_BYTES);
  const models = ['lmstudio:acme/Huge/huge-F16.gguf'];
  const answer = await begin(runtimeImport, { models });
  await firstLines<ImportEvent>(answer, ({ type }) => type === 'progress');
  assert.equal(errorOf(await post(runtimeImport, {})).slice(0, 2), [429, 'BUSY']);
  answer.destroy();
  const next = await waitFor('the next one', async () => {
    const list = await post(runtimeImport, {});
    return list.status === 200 && list;
  });
  const { models: found } = finishedOf(linesOf<ImportEvent>(next));
  assert.is(found.find(({ source }) => source === models[0])?.state, 'planned');
});

test('a daemon of root reads no folder of another user', async ({ post, user }) => {
  if (process.getuid?.() !== 0) return;
  const folder = join(user, '.lmstudio', 'models');
  chownSync(folder, 65_534, 65_534);
  const { models, refused } = finishedOf(linesOf<ImportEvent>(await post(runtimeImport, {})));
  chownSync(folder, 0, 0);
  assert.is(
    models.some(({ program }) => program === 'lmstudio'),
    false,
  );
  assert.match(refused.find(({ path }) => path === folder)?.reason ?? '', /belongs to another user/);
});

test('only an administrator, and only with a key for an import', async ({ home, port }) => {
  const file = join(home.dir, 'data', 'keys.json');
  const { key } = await addKey(file, 'app', 'inference');
  const body = { model: 'gemma', type: 'Q8_0' };
  for (const path of [runtimeQuantize, runtimeVerify, runtimeImport]) {
    const headers = { authorization: `Bearer ${key}` };
    assert.is((await ask({ port }, path, { body, headers })).status, 403, path);
    assert.is((await ask({ port }, path, { body })).status, 401, path);
  }
});

test('no path, name or text of these requests is in the log', ({ daemon, user }) => {
  const log = daemon.log.map((line) => JSON.stringify(line)).join('\n');
  for (const text of [user, 'nothing', 'Q4_K_N', 'elsewhere', 'Be brief', 'huge-F16'])
    assert.not.ok(log.includes(text), text);
});

test('a daemon that stops ends the work, tells its client, and keeps nothing of it', async (context) => {
  const { post, daemon } = context;
  const before = blobsOf(context);
  const held = holdNextChild(daemon.pid, { skip: 1 });
  const answer = post(runtimeQuantize, { model: 'gemma', type: 'Q5_K_M', name: 'stopped' });
  const child = await held;
  daemon.kill('SIGTERM');
  const last = linesOf<QuantizeEvent | ErrorEvent>(await answer).at(-1);
  assert.ok(last?.type === 'error' && last.error.code === 'NOT_READY');
  assert.is((await daemon.exit).code, 0);
  assert.equal(blobsOf(context), before);
  assert.throws(() => process.kill(child, 0), /ESRCH/);
});

function finishedOf(events: readonly ImportEvent[]): Extract<ImportEvent, { type: 'finished' }> {
  const last = events.at(-1);
  assert.ok(last?.type === 'finished');
  return last;
}

/** Reads the lines of an answer up to the first that `isLast` accepts. */
async function firstLines<Event>(
  answer: IncomingMessage,
  isLast: (event: Event) => boolean = () => true,
): Promise<Event[]> {
  const events: Event[] = [];
  for await (const line of createInterface({ input: answer })) {
    if (line === '') continue;
    events.push(JSON.parse(line) as Event);
    if (isLast(events.at(-1) as Event)) break;
  }
  return events;
}

test.run();
