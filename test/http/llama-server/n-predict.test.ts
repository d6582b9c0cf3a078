/** llama-server's `n_predict` in OpenAI's routes: a limit, none, and a warm-up of the prefix cache. */
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { ask, type Answer } from '../ask.ts';
import { FINISH, START, startScripted, text, type ScriptedListener } from '../scripted.ts';

let listener: ScriptedListener;
test.before(async () => {
  listener = await startScripted({
    script: async function* () {
      yield START;
      yield { type: 'reasoning', text: 'hm' };
      yield text('hello');
      yield FINISH;
    },
  });
});
test.after(() => listener.stop());

const CHAT = '/v1/chat/completions';
const BODIES: readonly (readonly [path: string, body: object])[] = [
  [CHAT, { messages: [{ role: 'user', content: 'a' }] }],
  ['/v1/completions', { prompt: 'a' }],
];
const post = (path: string, body: object): Promise<Answer> => ask(listener, path, { body });

async function limitOf(path: string, body: object): Promise<(number | undefined)[]> {
  listener.backend.requests.length = 0;
  const answer = await post(path, body);
  assert.is(answer.status, 200, answer.text);
  const [request] = listener.backend.requests;
  return [request?.max_tokens, request?.default_max_tokens];
}

test('it comes before the other names of the limit', async () => {
  for (const [path, body] of BODIES) {
    assert.equal(await limitOf(path, { ...body, n_predict: 256 }), [256, undefined]);
    assert.equal(await limitOf(path, { ...body, n_predict: 256, max_tokens: 5 }), [256, undefined]);
    assert.equal(await limitOf(path, { ...body, n_predict: -1, max_tokens: 5 }), [undefined, undefined]);
    assert.equal(await limitOf(path, { ...body, n_predict: 0 }), [1, undefined]);
    const refused = await post(path, { ...body, n_predict: 0.5 });
    assert.equal([refused.status, refused.json().error.param], [400, 'n_predict']);
  }
});

test('0 computes the prompt: the answer is empty', async () => {
  for (const [path, body] of BODIES) {
    const [choice] = (await post(path, { ...body, n_predict: 0 })).json().choices;
    const { content, reasoning_content } = path === CHAT ? choice.message : { content: choice.text };
    assert.equal([content, reasoning_content, choice.finish_reason], ['', undefined, 'length'], path);
    const { text: stream } = await post(path, { ...body, n_predict: 0, stream: true });
    assert.not.match(stream, /hello|hm/);
    assert.match(stream, /"finish_reason":"length".*\[DONE\]/s);
  }
});

test.run();
