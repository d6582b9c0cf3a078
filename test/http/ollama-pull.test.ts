/** `POST /api/pull`: the lines that Ollama clients read, and access control. */
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { SvcError } from '../../src/protocol/errors.ts';
import { ask } from './ask.ts';
import { startScripted, TINY, type ScriptedListener } from './scripted.ts';

let listener: ScriptedListener;
const DIGEST = `sha256:${'ab'.repeat(32)}`;
test.before(async () => {
  listener = await startScripted();
});
test.after(() => listener.stop());
test.before.each(() => {
  Object.assign(listener.world, { admits: 'admin', key: 'deploy' });
  listener.world.pull = async function* ({ model }) {
    const files = [{ name: 'm.gguf', size_bytes: 10, digest: DIGEST }];
    yield { type: 'resolved', model, source: `ollama:${model}`, files, total_bytes: 10, present_bytes: 2 };
    yield { type: 'progress', done_bytes: 6, total_bytes: 10, fetched_bytes: 4, bytes_per_second: 1 };
    yield { type: 'pulled', model: TINY, fetched_bytes: 8 };
  };
});

test('a pull streams status lines, the last one success', async () => {
  const answer = await ask(listener, '/api/pull', { body: { model: 'tiny:1b' } });
  assert.is(answer.headers['content-type'], 'application/x-ndjson; charset=utf-8');
  const status = 'pulling abababababab';
  assert.equal(
    answer.text
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line) as unknown),
    [
      { status: 'pulling manifest' },
      { status, digest: DIGEST, total: 10, completed: 2 },
      { status, digest: DIGEST, total: 10, completed: 6 },
      { status: 'verifying sha256 digest' },
      { status: 'writing manifest' },
      { status: 'success' },
    ],
  );
  const whole = await ask(listener, '/api/pull', { body: { name: 'tiny:1b', stream: false } });
  assert.equal(whole.json(), { status: 'success' });
});

test('plain names mean Ollama models; errors are an HTTP status, or a line after the first line', async () => {
  let asked = '';
  listener.world.pull = async function* ({ model }, _, dialect) {
    asked = `${dialect} ${model}`;
    throw new SvcError('MODEL_NOT_FOUND', 'there is no tiny');
  };
  const early = await ask(listener, '/api/pull', { body: { model: 'tiny' } });
  assert.equal([early.status, early.json()], [404, { error: 'there is no tiny' }]);
  assert.is(asked, 'ollama tiny');
  listener.world.pull = async function* ({ model }) {
    yield { type: 'resolved', model, source: 'x', files: [], total_bytes: 1, present_bytes: 0 };
    throw new SvcError('DOWNLOAD_FAILED', 'the store broke off');
  };
  const late = await ask(listener, '/api/pull', { body: { model: 'tiny' } });
  assert.equal([late.status, late.complete], [200, false]);
  assert.equal(JSON.parse(late.text.trim().split('\n').at(-1) ?? ''), { error: 'the store broke off' });
});

test('it requires an admin key and refuses foreign origins', async () => {
  const body = { model: 'tiny' };
  listener.world.admits = 'inference';
  assert.is((await ask(listener, '/api/pull', { body })).status, 403);
  listener.world.admits = null;
  assert.is((await ask(listener, '/api/pull', { body })).status, 401);
  Object.assign(listener.world, { admits: 'admin', key: null });
  const keyless = await ask(listener, '/api/pull', { body });
  assert.is(keyless.status, 401, 'loopback without keys: any user of this machine');
  assert.match(keyless.json().error, /API key of scope admin/);
  listener.world.key = 'deploy';
  const foreign = { origin: 'https://evil.example' };
  assert.is((await ask(listener, '/api/pull', { body, headers: foreign })).status, 403);
  assert.is((await ask(listener, '/api/pull')).status, 405);
});

test.run();
