/** Sampler settings that clients of OpenAI's formats write in other ways than ours. */
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { parseChatCompletion } from '../../src/protocol/openai/chat-request.ts';

const MESSAGES = [{ role: 'user', content: 'hi' }];

test('a seed may have 64 bits, and a top_k of -1 is off', () => {
  const seedOf = (seed: number) => parseChatCompletion({ messages: MESSAGES, seed }).request.sampling.seed;
  const now = 1_796_000_000_000;
  assert.equal([seedOf(2 ** 32 - 1), seedOf(2 ** 32), seedOf(now)], [2 ** 32 - 1, 0, now % 2 ** 32]);
  assert.equal([seedOf(-2), seedOf(-(2 ** 32)), seedOf(-0)], [2 ** 32 - 2, 0, 0]);
  assert.equal(parseChatCompletion({ messages: MESSAGES, top_k: -1 }).request.sampling, { top_k: 0 });
});

test('logit_bias may be a list of pairs, as in llama-server', () => {
  const biasOf = (logit_bias: unknown) =>
    parseChatCompletion({ messages: MESSAGES, logit_bias }).request.sampling.logit_bias;
  assert.equal(biasOf([]), []);
  assert.equal(biasOf([[15, 2.5]]), [[15, 2.5]]);
  assert.equal(biasOf([[7, false]]), [[7, -100]]);
});

test.run();
