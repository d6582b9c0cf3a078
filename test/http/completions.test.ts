/** Legacy completions: OpenAI's client, requests, answers and errors, with a scripted backend. */
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import type OpenAI from 'openai';
import { SvcError } from '../../src/protocol/errors.ts';
import type { TokenLogprobs } from '../../src/protocol/generate.ts';
import { openAiAt } from '../support/openai.ts';
import { failure } from './api-failure.ts';
import { ask, type Answer } from './ask.ts';
import { FINISH, hello, START, startScripted, text, type Script, type ScriptedListener } from './scripted.ts';

let listener: ScriptedListener;
let client: OpenAI;
test.before(async () => {
  listener = await startScripted();
  client = openAiAt(listener.url);
});
test.after(() => listener.stop());
test.before.each(() => {
  listener.backend.script = hello;
  listener.backend.requests.length = 0;
});

const post = (body: object): Promise<Answer> => ask(listener, '/v1/completions', { body });
const raws = (): unknown[] => listener.backend.requests.map(({ raw }) => raw);

/** Repeats the prompt and the seed. */
const parrot: Script = async function* ({ raw, sampling }) {
  yield START;
  yield text(`${raw !== undefined && 'text' in raw ? raw.text : 'ids'}!`);
  if (sampling.seed !== undefined) yield text(String(sampling.seed));
  yield FINISH;
};

const token = (name: string, bytes: readonly number[], logprob: number): TokenLogprobs => {
  const own = { token: name, bytes, logprob };
  return { ...own, top: [own, { token: 'x', bytes: [120], logprob: -3 }] };
};

test('a prompt gets OpenAI’s default of 16 tokens, and a whole answer', async () => {
  const answer = await client.completions.create({ model: 'tiny', prompt: 'Say', temperature: 0.5, user: 'x' });
  assert.match(answer.id, /^cmpl-[0-9a-f]{32}$/);
  assert.equal([answer.object, answer.model], ['text_completion', 'tiny']);
  assert.equal(answer.choices, [{ index: 0, text: 'hello world', logprobs: null, finish_reason: 'stop' }]);
  assert.equal(answer.usage, {
    prompt_tokens: 7,
    completion_tokens: 2,
    total_tokens: 9,
    prompt_tokens_details: { cached_tokens: 3 },
  });
  assert.equal(listener.backend.requests, [
    {
      model: 'tiny',
      messages: [],
      raw: { text: 'Say' },
      default_max_tokens: 16,
      sampling: { temperature: 0.5 },
      stop: [],
    },
  ]);
});

test('-1 is no limit of tokens', async () => {
  await post({ prompt: 'a', max_tokens: -1, seed: -1 });
  await post({ prompt: 'a', max_tokens: null });
  assert.equal(
    listener.backend.requests.map(({ max_tokens, default_max_tokens, sampling }) => [
      max_tokens,
      default_max_tokens,
      sampling.seed,
    ]),
    [
      [undefined, undefined, undefined],
      [undefined, 16, undefined],
    ],
  );
});

test('several prompts and n: answers to the first prompt come first, each prompt counts once', async () => {
  listener.backend.script = parrot;
  const { choices, usage } = await client.completions.create({ model: 'tiny', prompt: ['a', 'b'], n: 2, seed: 5 });
  assert.equal(
    choices.map((choice) => [choice.index, choice.text]),
    [
      [0, 'a!5'],
      [1, 'a!6'],
      [2, 'b!5'],
      [3, 'b!6'],
    ],
  );
  assert.equal([usage?.prompt_tokens, usage?.completion_tokens, usage?.total_tokens], [14, 8, 22]);
});

test('prompts may be token ids, alone or in a list', async () => {
  await client.completions.create({ model: 'tiny', prompt: [1, 2] });
  await client.completions.create({ model: 'tiny', prompt: [[1], [2, 3]] });
  await post({ prompt: ['a', [4]] });
  assert.equal(raws(), [{ tokens: [1, 2] }, { tokens: [1] }, { tokens: [2, 3] }, { text: 'a' }, { tokens: [4] }]);
});

test('a suffix makes a gap', async () => {
  await client.completions.create({ model: 'tiny', prompt: 'a', suffix: 'b' });
  await client.completions.create({ model: 'tiny', prompt: 'a', suffix: '' });
  assert.equal(raws(), [{ text: '', infill: { prefix: 'a', suffix: 'b', extra: [] } }, { text: 'a' }]);
});

test('a limit of 0 tokens computes the prompt, and echo repeats it', async () => {
  const warm = { model: 'tiny', prompt: 'ab', max_tokens: 0 };
  for (const echo of [false, true]) {
    const { choices, usage } = await client.completions.create({ ...warm, echo });
    assert.equal([choices[0]?.text, choices[0]?.finish_reason], [echo ? 'ab' : '', 'length']);
    assert.is(usage?.completion_tokens, 0);
    let streamed = '';
    for await (const chunk of await client.completions.create({ ...warm, echo, stream: true }))
      streamed += chunk.choices[0]?.text ?? '';
    assert.is(streamed, echo ? 'ab' : '');
  }
  assert.is(listener.backend.requests.at(-1)?.max_tokens, 1);
});

test('echo repeats the prompt, also one of token ids, also in a stream', async () => {
  for (const [prompt, whole] of [
    ['ab', 'abhello world'],
    [[97, 98], 'abhello world'],
  ] as const) {
    const { choices } = await client.completions.create({ model: 'tiny', prompt: prompt as string, echo: true });
    assert.is(choices[0]?.text, whole);
    const stream = await client.completions.create({
      model: 'tiny',
      prompt: prompt as string,
      echo: true,
      stream: true,
    });
    let streamed = '';
    for await (const chunk of stream) streamed += chunk.choices[0]?.text ?? '';
    assert.is(streamed, whole);
  }
  listener.backend.script = async function* () {
    yield START;
    yield FINISH;
  };
  assert.match((await post({ prompt: 'ab', echo: true, stream: true })).text, /"text":"ab"/);
});

test('logprobs are four parallel lists, with offsets in characters', async () => {
  listener.backend.script = async function* () {
    yield START;
    yield { ...text('é🙂'), logprobs: [token('é', [0xc3, 0xa9], -1), token('\ufffd', [0xf0, 0x9f], -2)] } as never;
    yield { ...text('!'), logprobs: [token('\ufffd', [0x99, 0x82], -0.5), token('!', [33], -4)] } as never;
    yield FINISH;
  };
  const { choices } = await client.completions.create({ model: 'tiny', prompt: 'a', logprobs: 2 });
  assert.equal(choices[0]?.logprobs, {
    tokens: ['é', 'bytes:\\xf0\\x9f', 'bytes:\\x99\\x82', '!'],
    token_logprobs: [-1, -2, -0.5, -4],
    top_logprobs: [
      { é: -1, x: -3 },
      { 'bytes:\\xf0\\x9f': -2, x: -3 },
      { 'bytes:\\x99\\x82': -0.5, x: -3 },
      { '!': -4, x: -3 },
    ],
    text_offset: [0, 1, 1, 2],
  });
  assert.is(listener.backend.requests[0]?.logprobs, 2);
  const few = (await post({ prompt: 'a', logprobs: 0 })).json();
  assert.is(few.choices[0].logprobs.top_logprobs, null);

  const stream = await client.completions.create({ model: 'tiny', prompt: 'a', logprobs: 1, stream: true });
  const offsets: number[] = [];
  for await (const chunk of stream) offsets.push(...(chunk.choices[0]?.logprobs?.text_offset ?? []));
  assert.equal(offsets, [0, 1, 1, 2]);
});

test('a stream has the text, an end for each choice, and the usage on request', async () => {
  listener.backend.script = parrot;
  const stream = await client.completions.create({
    model: 'tiny',
    prompt: ['a', 'b'],
    stream: true,
    stream_options: { include_usage: true },
  });
  const texts = ['', ''];
  const ends: unknown[] = [];
  let usage: OpenAI.CompletionUsage | null | undefined;
  for await (const chunk of stream) {
    assert.is(chunk.object, 'text_completion');
    for (const choice of chunk.choices) {
      texts[choice.index] = String(texts[choice.index]) + choice.text;
      ends[choice.index] = choice.finish_reason;
    }
    usage = chunk.usage ?? usage;
  }
  assert.equal(
    [texts, ends],
    [
      ['a!', 'b!'],
      ['stop', 'stop'],
    ],
  );
  assert.equal([usage?.prompt_tokens, usage?.completion_tokens], [14, 4]);
});

test('an error after the first byte never looks like an end', async () => {
  listener.backend.script = async function* () {
    yield START;
    yield text('a');
    throw new SvcError('ENGINE_CRASHED', 'the engine has exited');
  };
  const answer = await post({ prompt: 'a', stream: true });
  assert.equal([answer.status, answer.complete, answer.text.includes('[DONE]')], [200, false, false]);
  assert.match(answer.text, /"error":\{"message":"the engine has exited"/);
});

const REFUSED: readonly [body: object, param: string, message: RegExp][] = [
  [{}, 'prompt', /prompt is required/],
  [{ prompt: 7 }, 'prompt', /must be a string or a list/],
  [{ prompt: [] }, 'prompt', /length of at least 1/],
  [{ prompt: ['a', []] }, 'prompt[1]', /length of at least 1/],
  [{ prompt: ['a', {}] }, 'prompt[1]', /must be a string or a list of token ids/],
  [{ prompt: [1, 'a'] }, 'prompt[1]', /must be number/],
  [{ prompt: [1, -1] }, 'prompt[1]', /at least 0/],
  [{ prompt: Array(65).fill('a') }, 'prompt', /length of at most 64/],
  [{ prompt: Array(10).fill('a'), n: 16 }, 'n', /more than 64 answers/],
  [{ prompt: 'a', n: 17 }, 'n', /at most 16/],
  [{ prompt: 'a', best_of: 2 }, 'best_of', /equal to n/],
  [{ prompt: 'a', echo: true, logprobs: 1 }, 'echo', /cannot be combined with logprobs/],
  [{ prompt: 'a', logprobs: 21 }, 'logprobs', /at most 20/],
  [{ prompt: 'a', logprobs: true }, 'logprobs', /must be number/],
  [{ prompt: [1], suffix: 'b' }, 'suffix', /requires prompts that are texts/],
  [{ prompt: 'a', max_tokens: -2 }, 'max_tokens', /at least 0/],
  [{ prompt: 'a', messages: [{ role: 'user', content: 'a' }] }, 'messages', /chat\/completions/],
  [{ prompt: 'a', temperature: 'hot' }, 'temperature', /must be number/],
  [{ prompt: 'a', logit_bias: [['a', 2]] }, 'logit_bias', /must be an object/],
];
for (const [body, param, message] of REFUSED) {
  test(`refuses ${param}: ${JSON.stringify(body).slice(0, 60)}`, async () => {
    const answer = await post(body);
    const { error } = answer.json();
    assert.equal([answer.status, error.type, error.param], [400, 'invalid_request_error', param]);
    assert.match(error.message, message);
    assert.equal(listener.backend.requests, []);
  });
}

test('best_of equal to n is honoured, a file is no model', async () => {
  const { choices } = await client.completions.create({ model: 'tiny', prompt: 'a', n: 2, best_of: 2 });
  assert.is(choices.length, 2);
  const error = await failure(client.completions.create({ model: 'file:/x.gguf', prompt: 'a' }));
  assert.equal([error.status, error.param], [404, 'model']);
});

test.run();
