/** Pulling models by name into the store, from a fake hub. */
import { existsSync } from 'node:fs';
import { readFile, readdir } from 'node:fs/promises';
import { join } from 'node:path';
import * as assert from 'uvu/assert';
import { Download, DOWNLOAD_LIMITS } from '../../../src/models/pull/download.ts';
import { PartialFile } from '../../../src/models/pull/partial-file.ts';
import { parseReference } from '../../../src/models/pull/reference.ts';
import { RunningDigest } from '../../../src/models/pull/running-digest.ts';
import type { Pulled } from '../../../src/models/pull/puller.ts';
import { Web } from '../../../src/models/pull/web.ts';
import { rejection } from '../../support/errors.ts';
import { waitFor } from '../../support/wait.ts';
import { sha256 } from './fake-hub.ts';
import { full, KIB, lastOf, makePuller, MIB, modelOf, NEVER, projectorOf, pullSuite } from './pull-support.ts';

const test = pullSuite('pull');

test('a file is fetched in parts, verified, and available under its usual names', async ({ hub, store, pull, dir }) => {
  const content = modelOf(2 * MIB);
  hub.add('acme/Tiny-GGUF', 'Tiny-Q4_K_M.gguf', content);
  hub.add('acme/Tiny-GGUF', 'Tiny-Q8_0.gguf', modelOf(1000));
  hub.add('acme/Tiny-GGUF', 'README.md', Buffer.from('words'));
  const events = await pull('hf:acme/Tiny-GGUF');
  const { model, fetched_bytes } = lastOf(events);
  assert.equal(
    [model.id, model.source, model.digest, model.size_bytes, model.license, model.state],
    [
      'acme/Tiny-GGUF:Q4_K_M',
      'hf:acme/Tiny-GGUF:Q4_K_M',
      `sha256:${sha256(content)}`,
      content.length,
      'apache-2.0',
      'installed',
    ],
  );
  assert.is(fetched_bytes, content.length);
  assert.is(hub.sent, content.length, 'no byte came twice');
  assert.ok(hub.seen.filter(({ server }) => server === 'store').length > 4, 'in parts');
  assert.equal(await readFile(model.path), content);
  assert.equal(await readdir(join(dir, 'downloads')), []);
  const resolved = events[0];
  assert.is(resolved?.type === 'resolved' ? resolved.total_bytes : 0, content.length);
  const names = ['acme/tiny-gguf', 'acme/Tiny-GGUF:q4_k_m', 'hf:acme/Tiny-GGUF', 'hf.co/acme/Tiny-GGUF:Q4_K_M'];
  for (const name of names) assert.is((await store.find(name)).id, model.id, name);

  hub.forget();
  assert.is(lastOf(await pull('hf:acme/Tiny-GGUF')).fetched_bytes, 0);
  assert.is(hub.sent, 0, 'what is here is not fetched again');
  await store.remove(model.id);
  assert.is(existsSync(model.path), false);
});

test('progress counts each byte once, although parts are written concurrently', async ({ hub, pull }) => {
  const content = modelOf(24 * MIB);
  hub.add('acme/large', 'm-Q4_0.gguf', content);
  const events = await pull('hf:acme/large');
  const done = events.flatMap((event) => (event.type === 'progress' ? [event.done_bytes] : []));
  assert.is(done.at(-1), content.length);
});

test('the token is sent only to the hub', async ({ hub, pull, settings, ...context }) => {
  hub.token = 'hf_secret';
  hub.add('acme/gated', 'm-Q4_0.gguf', modelOf(MIB));
  const error = await rejection(() => pull('hf:acme/gated'), 'PROVIDER_AUTH', /terms must be accepted/);
  assert.match(error.hint ?? '', /accept its terms at .*acme\/gated.*HF_TOKEN/);
  for await (const _ of context.puller.pull(
    full(parseReference('hf:acme/gated')),
    [],
    { ...settings, token: 'hf_secret' },
    NEVER,
  ));
  const carried = hub.seen.filter(({ headers }) => headers.authorization !== undefined).map(({ server }) => server);
  assert.ok(carried.length > 0);
  assert.equal([...new Set(carried)], ['hub']);
  assert.not.match(JSON.stringify(await readdir(context.dir, { recursive: true })), /secret/);
});

test('a split model is fetched completely, with the file names that libllama expects', async ({ hub, store, pull }) => {
  const parts = [0, 1, 2].map((index) => modelOf(300 * KIB, index, { index, count: 3 }));
  parts.forEach((part, index) => hub.add('acme/large', `sub/large-Q4_0-0000${index + 1}-of-00003.gguf`, part));
  const { model } = lastOf(await pull('hf:acme/large'));
  assert.is(
    model.size_bytes,
    parts.reduce((sum, { length }) => sum + length, 0),
  );
  assert.match(model.path, /parts\/sha256-[0-9a-f]{64}\/model-00001-of-00003\.gguf$/);
  for (const [index, part] of parts.entries()) {
    assert.equal(await readFile(model.path.replace('00001-of', `0000${index + 1}-of`)), part);
  }
  assert.is((await store.find('acme/large')).state, 'installed');
  await store.remove('acme/large');
  assert.is(existsSync(model.path), false);

  hub.repositories.get('acme/large')?.delete('sub/large-Q4_0-00002-of-00003.gguf');
  await rejection(() => pull('hf:acme/large'), 'MODEL_NOT_FOUND', /2 of the 3 parts/);
});

test('a projector is fetched and recorded with its model, and deleted with the last model that uses it', async ({
  hub,
  store,
  pull,
}) => {
  const projector = projectorOf(50 * KIB, 7);
  for (const label of ['Q4_K_M', 'Q8_0']) hub.add('acme/seer', `seer-${label}.gguf`, modelOf(100 * KIB, label.length));
  hub.add('acme/seer', 'mmproj-seer-f16.gguf', projector);
  hub.add('acme/seer', 'mmproj-seer-f32.gguf', projectorOf(80 * KIB));
  const first = lastOf(await pull('hf:acme/seer')).model;
  const second = lastOf(await pull('hf:acme/seer:Q8_0')).model;
  assert.is(first.projector?.digest, `sha256:${sha256(projector)}`);
  assert.equal(second.projector, first.projector);
  const path = first.projector?.path ?? '';
  await store.remove(first.id);
  assert.equal(await readFile(path), projector);
  await store.remove(second.id);
  assert.is(existsSync(path), false);
});

test('a projector is validated like every model file before it is stored', async ({ hub, store, dir, pull }) => {
  hub.add('acme/seer', 'seer-Q8_0.gguf', modelOf(100 * KIB));
  hub.add('acme/seer', 'mmproj-seer-f16.gguf', Buffer.concat([Buffer.from('GGUF'), Buffer.alloc(50 * KIB, 0xff)]));
  await rejection(() => pull('hf:acme/seer'), 'MODEL_INVALID', /cannot be used: it is/);
  hub.add('acme/seer', 'mmproj-seer-f16.gguf', modelOf(50 * KIB, 7));
  await rejection(() => pull('hf:acme/seer'), 'MODEL_INVALID', /cannot be used: it is not a projector/);
  assert.is((await store.list()).length, 1, 'the built-in one');
  assert.equal(await readdir(join(dir, 'models')).catch(() => []), []);
});

test('an ambiguous name is refused with the possible choices', async ({ hub, pull }) => {
  hub.add('acme/several', 'a-Q4_0.gguf', modelOf(1000));
  hub.add('acme/several', 'b-Q4_0.gguf', modelOf(1000, 2));
  const { hint } = await rejection(() => pull('hf:acme/several'), 'INVALID_REQUEST', /several/);
  assert.match(hint ?? '', /hf:acme\/several:a-Q4_0\.gguf/);
  assert.is(lastOf(await pull('hf:acme/several:b-Q4_0.gguf')).model.id, 'acme/several:b-Q4_0');
  const missing = await rejection(() => pull('hf:acme/several:Q6_K'), 'MODEL_NOT_FOUND', /no Q6_K/);
  assert.match(missing.hint ?? '', /Q4_0/);
  await rejection(() => pull('hf:acme/nothing'), 'MODEL_NOT_FOUND', /private/);
  await rejection(() => pull('hf:acme/several@v9'), 'MODEL_NOT_FOUND', /no revision v9/);
  hub.add('acme/words', 'README.md', Buffer.from('x'));
  await rejection(() => pull('hf:acme/words'), 'MODEL_NOT_FOUND', /no GGUF/);
});

test('a paged file list is read completely', async ({ hub, pull }) => {
  hub.pageLength = 2;
  for (let index = 0; index < 7; index += 1) hub.add('acme/pages', `note-${index}.txt`, Buffer.from('x'));
  hub.add('acme/pages', 'm-Q4_0.gguf', modelOf(1000));
  assert.is(lastOf(await pull('hf:acme/pages')).model.id, 'acme/pages:Q4_0');
});

test('concurrent pulls of one model share a download, which continues while one of them waits', async ({
  hub,
  puller,
  settings,
  pull,
}) => {
  const content = modelOf(2 * MIB);
  hub.add('acme/m', 'm-Q4_0.gguf', content);
  const release = new AbortController();
  hub.onBytes = async ({ number }) => {
    if (number > 2) await waitFor('both to be there', () => release.signal.aborted);
    return false;
  };
  const gone = new AbortController();
  const first = pull('hf:acme/m', gone.signal);
  const second = pull('hf:acme/m');
  for await (const event of puller.pull(full(parseReference('hf:acme/m')), [], settings, NEVER)) {
    if (event.type === 'resolved') break;
  }
  gone.abort(new Error('left'));
  release.abort();
  assert.is(await first.catch((error: unknown) => (error as Error).message), 'left');
  assert.is(lastOf(await second).fetched_bytes, content.length);
  assert.is(hub.sent, content.length);
});

test('two processes that pull into the same store share one download', async ({ hub, pull, settings, ...context }) => {
  const content = modelOf(2 * MIB);
  hub.add('acme/m', 'm-Q4_0.gguf', content);
  const other = makePuller(context);
  const fromOther = (async () => {
    const said: string[] = [];
    for await (const event of other.pull(full(parseReference('hf:acme/m')), [], settings, NEVER)) said.push(event.type);
    return said;
  })();
  const [events, said] = await Promise.all([pull('hf:acme/m'), fromOther]);
  assert.is(hub.sent, content.length);
  assert.is(said.at(-1), 'pulled');
  assert.is(lastOf(events).model.id, 'acme/m:Q4_0');
  await other.close();
});

test('a paused pull keeps its data, and the next pull resumes there', async ({ hub, pull, dir }) => {
  const content = modelOf(3 * MIB);
  hub.add('acme/m', 'm-Q4_0.gguf', content);
  const stop = new AbortController();
  hub.onBytes = async (request) => {
    if (request.number < 6) return false;
    stop.abort(new Error('paused'));
    return await new Promise((resolve) => request.res.once('close', () => resolve(true)));
  };
  let before = 0;
  const onEvent = (event: Pulled): void => {
    if (event.type === 'progress') before = event.fetched_bytes;
  };
  assert.is(
    await pull('hf:acme/m', stop.signal, onEvent).then(
      () => '',
      (error: unknown) => (error as Error).message,
    ),
    'paused',
  );
  assert.is((await readdir(join(dir, 'downloads'))).length, 2, 'the file and its journal');
  hub.onBytes = () => false;
  hub.forget();
  const events = await pull('hf:acme/m');
  const [resolved] = events;
  assert.ok(resolved?.type === 'resolved' && resolved.present_bytes > 0);
  assert.is(resolved.present_bytes + lastOf(events).fetched_bytes, content.length);
  assert.ok(resolved.present_bytes >= before - 3 * 64 * KIB, `${before} came, ${resolved.present_bytes} were kept`);
});

test('a pull that is cancelled while its file is verified ends at once', async ({ dir }) => {
  const content = modelOf(3 * MIB);
  const digest = `sha256:${sha256(content)}`;
  const facts = { digest, sizeBytes: content.length, model: 'm', aliases: [] };
  const partial = await PartialFile.open(join(dir, 'downloads'), facts);
  await partial.write([content], 0);
  const stop = new AbortController();
  const read = partial.read.bind(partial);
  let reads = 0;
  partial.read = async (...where) => {
    reads += 1;
    stop.abort(new Error('paused'));
    return await read(...where);
  };
  const web = new Web({ stallMs: 1000 });
  const events = { onFetched: () => 0, onBytes: () => 0, onRetry: () => 0, onLost: () => 0 };
  const remote = { name: 'm', sizeBytes: content.length, digest, locate: () => Promise.reject(new Error('no need')) };
  const run = new Download(web, remote, partial, DOWNLOAD_LIMITS, events).run(stop.signal);
  assert.is(await run.catch((error: unknown) => (error as Error).message), 'paused');
  assert.is(reads, 1);
  await partial.close();
  await web.close();
});

test('bytes that come again are hashed once, as they pass', async ({ dir }) => {
  const content = modelOf(MIB);
  const digest = `sha256:${sha256(content)}`;
  const partial = await PartialFile.open(join(dir, 'downloads'), {
    digest,
    sizeBytes: content.length,
    model: 'm',
    aliases: [],
  });
  await partial.write([content.subarray(0, 300 * KIB)], 0);
  const running = new RunningDigest(partial);
  await running.catchUp(NEVER);
  const pieces = [content.subarray(0, 200 * KIB), content.subarray(200 * KIB, 700 * KIB), content.subarray(700 * KIB)];
  running.pass(pieces.slice(0, 1), 0);
  assert.is(running.position, 300 * KIB);
  running.pass(pieces.slice(1), 200 * KIB);
  assert.is(running.position, content.length);
  assert.is(running.finish(), digest);
  await partial.close();
});

test('free disk space is checked before anything is fetched', async ({ hub, pull }) => {
  hub.add('acme/huge', 'm-Q4_0.gguf', { content: modelOf(1000), saidSize: 2 ** 41 });
  const { hint } = await rejection(() => pull('hf:acme/huge'), 'CANNOT_WRITE', /GB free, .* GB needed/);
  assert.match(hint ?? '', /models\.dir/);
  assert.is(
    hub.seen.some(({ server }) => server === 'store'),
    false,
  );
});

test('offline, no server is contacted', async ({ hub, puller, settings }) => {
  const events = puller.pull(full(parseReference('hf:acme/m')), [], { ...settings, is_offline: true }, NEVER);
  await rejection(() => events.next(), 'DOWNLOAD_FAILED', /HF_HUB_OFFLINE/);
  assert.equal(hub.seen, []);
});

test.run();
