/** Paths that clients write in other ways: llama-server's aliases, a slash at the end, `/v1` too much or too few. */
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { ask, type Answer } from './ask.ts';
import { startScripted, type ScriptedListener } from './scripted.ts';

let listener: ScriptedListener;
test.before(async () => {
  listener = await startScripted();
});
test.after(() => listener.stop());

const messages = [{ role: 'user', content: 'a' }];
const documents = ['a'];

test('llama-server’s other paths are the same routes', async () => {
  const posts: readonly (readonly [path: string, body: object])[] = [
    ['/chat/completions', { messages }],
    ['/completions', { prompt: 'a' }],
    ['/embeddings', { input: 'a' }],
    ['/responses', { input: 'a' }],
    ['/reranking', { query: 'a', documents }],
    ['/v1/reranking', { query: 'a', documents }],
  ];
  for (const [path, body] of posts) {
    assert.is((await ask(listener, path, { body })).status, 200, path);
    const { error } = (await ask(listener, path, { body: {} })).json();
    assert.is(error.type, 'invalid_request_error', `${path}: errors in OpenAI's format`);
  }
  assert.is((await ask(listener, '/models')).json().object, 'list');
  assert.equal((await ask(listener, '/v1/health')).json(), { status: 'ok' });
  assert.ok(listener.world.ended.includes('/v1/chat/completions 200'), 'metrics have the route');
});

test('a slash at the end is ignored', async () => {
  assert.is((await ask(listener, '/v1/chat/completions/', { body: { messages } })).status, 200);
  assert.is((await ask(listener, '/v1/models/')).json().object, 'list');
  assert.is((await ask(listener, '/models/?x=1')).json().object, 'list');
  assert.is((await ask(listener, '/v1/models//')).status, 404);
  assert.is((await ask(listener, '/')).status, 200);
});

const hintOf = (answer: Answer): string | undefined => {
  assert.is(answer.status, 404);
  return answer.json().error.hint;
};

test('a path that is close to a route has a hint', async () => {
  for (const [path, route] of [
    ['/v1/v1/chat/completions', '/v1/chat/completions'],
    ['/v1/v1/messages', '/v1/messages'],
    ['/messages', '/v1/messages'],
    ['/audio/transcriptions', '/v1/audio/transcriptions'],
    ['/v1/infill', '/infill'],
    ['/v1/completion', '/completion'],
    ['/v1/api/chat', '/api/chat'],
    ['/v1/tokenize/', '/tokenize'],
  ] as const) {
    const hint = hintOf(await ask(listener, path, { body: {} }));
    assert.ok(hint?.startsWith(`did you mean ${route}? `), `${path}: ${String(hint)}`);
  }
  for (const path of ['/v1/nothing', '/nothing', '/v1', '/v1/', '//', '/v1/v1/v1/models'])
    assert.is(hintOf(await ask(listener, path)), undefined, path);
});

test.run();
