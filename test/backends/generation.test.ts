import { getEventListeners } from 'node:events';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import type { EngineFinish, EngineInfo, EngineOutput } from '../../src/engine/addon.ts';
import { Embedding, Generation, type AnswerBounds, type AnswerOwner } from '../../src/backends/local/generation.ts';
import { Detokenizing, Tokenizing } from '../../src/backends/local/tokenizing.ts';
import { given } from '../../src/protocol/given.ts';
import { explained, toEngineRequest, toFinishEvent } from '../../src/backends/local/request.ts';
import { restartDelayMs } from '../../src/backends/local/backoff.ts';
import type { GenerateRequest } from '../../src/protocol/generate.ts';
import { SvcError } from '../../src/protocol/errors.ts';

const finish: EngineFinish = {
  reason: 'stop',
  usage: { input_tokens: 4, output_tokens: 3, cached_tokens: 1 },
  timings: { started_ms: 10, first_token_ms: 30, finished_ms: 130 },
};

function make(request: AnswerBounds['request'] = {}) {
  const sent: string[] = [];
  const owner: AnswerOwner = {
    send: (message) => sent.push(`${message.type} ${'id' in message ? String(message.id) : ''}`),
    release: (id) => sent.push(`release ${String(id)}`),
    offend: (what) => sent.push(`offend ${what}`),
  };
  return { generation: new Generation(7, owner, { request, contextLength: 100_000 }), sent };
}
const never = new AbortController().signal;
const head = { model: 'one', arrivedAt: 0 };

test('text that was not pulled yet is joined into one event', async () => {
  const { generation, sent } = make();
  generation.accept();
  for (const text of ['a', 'b', 'c']) generation.push({ id: 7, text });
  generation.push({ id: 7, text: 'd', finish });
  const events = [];
  for await (const event of generation.events(never, head))
    events.push(event.type === 'text' ? event.text : event.type);
  assert.equal(events, ['start', 'abcd', 'finish']);
  assert.equal(sent, ['release 7']);
});

test('an engine that ignores a pause is reported, and its text dropped', () => {
  const { generation, sent } = make();
  for (let step = 0; step < 200; step += 1) generation.push({ id: 7, text: 'x'.repeat(64 * 1024) });
  assert.is(sent[0], 'pause 7');
  assert.match(sent[1] ?? '', /^offend continued/);
  const logprobs = Array.from({ length: 1000 }, () => ({ bytes: 'x', logprob: -1, top: [] }));
  const other = make({ logprobs: 0 });
  for (let step = 0; step < 200; step += 1) other.generation.push({ id: 7, text: 'x', logprobs });
  assert.match(other.sent[1] ?? '', /^offend continued/);
});

/** What an engine sends again and again, and the requests that it may answer so. */
const floods: readonly [what: string, output: Omit<EngineOutput, 'id'>, request: AnswerBounds['request']][] = [
  ['text', { text: 'x'.repeat(1024) }, {}],
  ['reasoning', { text: '', reasoning: 'x'.repeat(1024) }, {}],
  ['tokens without text', { text: '', tokens: [1, 2, 3, 4] }, { continuation: { seed: 1, tokens: [] } }],
  ['tokens and text', { text: 'x', tokens: [1] }, { continuation: { seed: 1, tokens: [] } }],
  ['log probabilities', { text: '', logprobs: [{ bytes: '', logprob: -1, top: [] }] }, { logprobs: 0 }],
  ['bytes of alternatives', { text: '', logprobs: [wide()] }, { logprobs: 20 }],
  ['arguments', { text: '', tool_calls: [part(0, 'x'.repeat(1024)), part(1)] }, {}],
  ['parts without arguments', { text: '', tool_calls: [part(0), part(1)] }, {}],
  ['reasoning and text by turns', { text: 'x', reasoning: 'x' }, {}],
];

function part(index: number, text = '') {
  return { index, id: '', name: '', arguments: text };
}

function wide() {
  const bytes = 'x'.repeat(1024);
  return { bytes, logprob: -1, top: Array.from({ length: 20 }, () => ({ bytes, logprob: -1 })) };
}

for (const [what, output, request] of floods) {
  test(`what waits for a consumer is bounded: ${what}`, () => {
    const { generation, sent } = make(request);
    const calls = [0, 1].map((index) => ({ ...part(index), id: 'x'.repeat(1024), name: 'call' }));
    generation.push({ id: 7, text: '', tool_calls: calls });
    let steps = 0;
    while (!sent.some((each) => each.startsWith('offend')) && steps < 1_000_000) {
      generation.push({ id: 7, ...output });
      steps += 1;
    }
    assert.match(sent.at(-1) ?? '', /^offend (continued|sent more)/);
    // Nothing more is kept, and it is reported once.
    for (let step = 0; step < 10; step += 1) generation.push({ id: 7, ...output });
    assert.is(sent.filter((each) => each.startsWith('offend')).length, 1);
  });

  test(`an answer is bounded, however fast it is read: ${what}`, async () => {
    const { generation, sent } = make({ ...request, max_tokens: 1 });
    generation.push({ id: 7, text: '', tool_calls: [0, 1].map((index) => ({ ...part(index), name: 'call' })) });
    const events = generation.events(never, head);
    const isOffended = (): boolean => sent.some((each) => each.startsWith('offend'));
    for (let round = 0; round < 100_000 && !isOffended(); round += 1) {
      for (let step = 0; step < 10; step += 1) generation.push({ id: 7, ...output });
      generation.push({ id: 7, text: '.' });
      while (!isOffended()) {
        const { value } = await events.next();
        if (value?.type === 'text' && value.text.endsWith('.')) break;
      }
    }
    assert.match(sent.at(-1) ?? '', /^offend sent more/);
    await events.return();
  });
}

test('an answer of the longest tokens is within its bound', async () => {
  const bytes = ' '.repeat(128);
  const candidate = { bytes, logprob: -1 };
  for (const alternatives of [undefined, 0, 20]) {
    const { generation, sent } = make(given({ logprobs: alternatives, max_tokens: 32_768 }));
    const logprobs = alternatives === undefined ? [] : [{ ...candidate, top: Array(alternatives).fill(candidate) }];
    const events = generation.events(never, head);
    for (let token = 0; token < 32_768; token += 1) {
      generation.push({ id: 7, text: bytes, ...(alternatives === undefined ? {} : { logprobs }) });
      await events.next();
    }
    assert.equal(
      sent.filter((each) => each.startsWith('offend')),
      [],
    );
    await events.return();
  }
});

test('only what the request asked for is taken', () => {
  const logprobs = [{ bytes: 'x', logprob: -1, top: [] }];
  for (const [output, request] of [
    [{ tokens: [1] }, { logprobs: 1 }],
    [{ logprobs }, { continuation: { seed: 1, tokens: [] } }],
  ] as const) {
    const { generation, sent } = make(request);
    generation.push({ id: 7, text: 'x', ...output });
    assert.match(sent[0] ?? '', /^offend sent .* were not requested/);
  }
});

test('tokens that no text follows do not pause an answer, which nothing would resume', async () => {
  const { generation, sent } = make({ continuation: { seed: 1, tokens: [] } });
  for (let step = 0; step < 1000; step += 1) generation.push({ id: 7, text: '', tokens: [step] });
  assert.equal(sent, []);
  generation.push({ id: 7, text: 'x', tokens: [1000] });
  assert.equal(sent, ['pause 7']);
  const events = generation.events(never, head);
  await events.next();
  const { value } = await events.next();
  assert.ok(value?.type === 'text');
  assert.is(value.tokens?.length, 1001);
  assert.equal(sent, ['pause 7', 'resume 7']);
  await events.return();
});

test('tokens of a text, their pieces and the prompt are taken once, and only if asked for', () => {
  const sent: string[] = [];
  const owner = { send: () => undefined, release: () => undefined, offend: (what: string) => void sent.push(what) };
  const text = { text: 'x' };
  const conversation = { prompt: 'x' };
  const right = [
    [text, { tokens: [1] }],
    [
      { ...text, pieces: true },
      { tokens: [1], pieces: ['x'] },
    ],
    [conversation, { tokens: [1], prompt: 'x' }],
  ] as const;
  for (const [request, tokens] of right) {
    const asked = new Tokenizing(7, owner, request);
    asked.pushTokens(tokens);
    assert.equal(sent.splice(0), []);
    asked.pushTokens(tokens);
    assert.is(sent.splice(0).length, 1);
    for (const [other] of right) {
      if (other === request) continue;
      new Tokenizing(7, owner, other).pushTokens(tokens);
      assert.is(sent.splice(0).length, 1, JSON.stringify([other, tokens]));
    }
  }
  const detokenizing = new Detokenizing(7, owner);
  detokenizing.push({ id: 7, text: 'x' });
  assert.equal(sent, []);
  detokenizing.push({ id: 7, text: 'x' });
  assert.equal(sent, ['sent a text twice']);
});

test('more vectors than requested are reported', () => {
  const sent: string[] = [];
  const owner = { send: () => undefined, release: () => undefined, offend: (what: string) => void sent.push(what) };
  const generation = new Embedding(7, owner, 2, 4);
  generation.pushVectors(new Float32Array(8));
  assert.equal(sent, []);
  generation.pushVectors(new Float32Array(4));
  assert.is(sent.length, 1);
});

test('outputs that arrive before the acceptance are not lost', async () => {
  const { generation } = make();
  generation.push({ id: 7, text: 'a', finish });
  generation.accept();
  const events = [];
  for await (const event of generation.events(never, head)) events.push(event.type);
  assert.equal(events, ['start', 'text', 'finish']);
});

test('a slow consumer pauses the engine once, and the next pull resumes it', async () => {
  const { generation, sent } = make();
  generation.accept();
  const events = generation.events(never, head);
  await events.next();
  for (let step = 0; step < 20; step++) generation.push({ id: 7, text: 'x'.repeat(1024) });
  assert.equal(sent, ['pause 7']);
  const { value } = await events.next();
  assert.is(value?.type === 'text' && value.text.length, 20 * 1024);
  assert.equal(sent, ['pause 7', 'resume 7']);
  await events.return();
  assert.equal(sent, ['pause 7', 'resume 7', 'cancel 7', 'release 7']);
});

test('a failure is delivered before text that was not pulled yet', async () => {
  const { generation, sent } = make();
  generation.push({ id: 7, text: 'a' });
  const error = new SvcError('ENGINE_CRASHED', 'gone');
  generation.fail(error);
  try {
    for await (const event of generation.events(never, head)) assert.unreachable(event.type);
    assert.unreachable();
  } catch (thrown) {
    assert.is(thrown, error);
  }
  assert.equal(sent, ['release 7']);
});

test('an abort wakes a waiting consumer and cancels the request', async () => {
  const { generation, sent } = make();
  const controller = new AbortController();
  const events = generation.events(controller.signal, head);
  const next = events.next().catch((error: unknown) => error);
  const reason = new SvcError('CANCELLED', 'left');
  controller.abort(reason);
  assert.is(await next, reason);
  assert.equal(sent, ['cancel 7', 'release 7']);
});

test('repeated waits leave no abort listener behind', async () => {
  const { generation } = make();
  const { signal } = new AbortController();
  generation.accept();
  const events = generation.events(signal, head);
  await events.next();
  for (let step = 0; step < 20; step++) {
    const next = events.next();
    generation.push({ id: 7, text: 'x' });
    assert.equal((await next).value, { type: 'text', text: 'x' });
    assert.is(getEventListeners(signal, 'abort').length, 1);
  }
  generation.push({ id: 7, text: '', finish });
  await events.next();
  await events.next();
  assert.is(getEventListeners(signal, 'abort').length, 0);
});

test('timings are computed backwards from the arrival of the finish', () => {
  const event = toFinishEvent(finish, 1000, 1180);
  assert.equal(event.timings, { queue_ms: 60, ttft_ms: 80, total_ms: 180, tokens_per_second: 20 });
  assert.equal(event.usage, { input_tokens: 4, output_tokens: 3, cached_tokens: 1 });
});

test('phases that did not happen have no timing', () => {
  const none = { ...finish.usage, output_tokens: 0 };
  const event = toFinishEvent(
    { ...finish, usage: none, timings: { started_ms: null, first_token_ms: null, finished_ms: 130 } },
    1000,
    1180,
  );
  assert.equal(event.timings, { queue_ms: 180, ttft_ms: null, total_ms: 180, tokens_per_second: null });
  assert.is(toFinishEvent({ ...finish, usage: { ...none, output_tokens: 1 } }, 0, 500).timings.tokens_per_second, null);
});

test('a request is converted for the engine, with only the fields that were set', () => {
  const messages = [{ role: 'user' as const, content: 'hi' }];
  const bare = toEngineRequest({ messages, sampling: {}, stop: [] });
  assert.equal(bare, { messages, sampling: {}, stop: [] });
  const request: GenerateRequest = {
    messages,
    max_tokens: 5,
    truncate: true,
    sampling: {
      temperature: 0,
      top_k: 1,
      top_p: 0.5,
      min_p: 0.1,
      repeat_penalty: 1.1,
      frequency_penalty: 0.2,
      presence_penalty: 0.3,
      seed: 42,
      logit_bias: [[3, -100]],
    },
    stop: ['END'],
    priority: 'batch',
    format: { type: 'grammar', grammar: 'root ::= "x"' },
    logprobs: 3,
    store: false,
  };
  const caller = { kind: 'key', name: 'app', address: null, scope: 'inference' } as const;
  assert.equal(toEngineRequest(request, { caller, traceId: 'trace', isChoice: true }, 'key'), {
    messages,
    max_tokens: 5,
    truncate: true,
    sampling: request.sampling,
    stop: ['END'],
    priority: 'batch',
    grammar: 'root ::= "x"',
    logprobs: 3,
    store: false,
    share: 'key:app',
    own_prefixes: true,
    prefix_group: 'trace',
  });
});

test('pending probabilities arrive with their text, with unchanged bytes', async () => {
  const { generation } = make({ logprobs: 1 });
  const chosen = (bytes: string, logprob: number) => ({ bytes, logprob, top: [{ bytes: 'x', logprob: -1 }] });
  generation.push({ id: 7, text: 'a', logprobs: [chosen('a', -0.5)] });
  generation.push({ id: 7, text: '€', logprobs: [chosen('\xE2\x82', -2), chosen('\xAC', 0)] });
  generation.push({ id: 7, text: '', finish });
  const told = [];
  for await (const event of generation.events(never, head)) if (event.type === 'text') told.push(event);
  const top = [{ token: 'x', bytes: [120], logprob: -1 }];
  assert.equal(told, [
    {
      type: 'text',
      text: 'a€',
      logprobs: [
        { token: 'a', bytes: [97], logprob: -0.5, top },
        { token: '\uFFFD', bytes: [0xe2, 0x82], logprob: -2, top },
        { token: '\uFFFD', bytes: [0xac], logprob: 0, top },
      ],
    },
  ]);
});

test('a grammar error of the engine names the field of the request', () => {
  const refused = new SvcError('INVALID_REQUEST', 'line 1, column 2: expected )', { param: 'grammar' });
  const request = { messages: [], sampling: {}, stop: [] };
  const engine = { info: null, plan: null };
  const ofGrammar = explained(refused, { ...request, format: { type: 'grammar', grammar: '(' } }, engine);
  assert.is(ofGrammar.message, 'format.grammar cannot be enforced: line 1, column 2: expected )');
  assert.is(explained(refused, { ...request, format: { type: 'json_object' } }, engine).param, 'format.schema');
  const other = new SvcError('INVALID_REQUEST', 'top_p must be between 0 and 1');
  assert.is(explained(other, request, engine), other);
});

test('an error about the context says what helps with this model', () => {
  const request = { messages: [], sampling: {}, stop: [] };
  const hint = (code: 'CONTEXT_OVERFLOW' | 'OUT_OF_MEMORY', context: number, isChosen: boolean, q8 = false): string => {
    const info = { context_length: context, trained_context_length: 32_768, makes_embeddings: false };
    const settings = { context_length: 'models.m.context_length', cache_type: 'models.m.cache_type' };
    const plan = { isChosen, settings, options: q8 ? { cache_type: 'q8_0' as const } : {} };
    const engine = { info: info as EngineInfo, plan };
    return explained(new SvcError(code, 'it has 40000 tokens'), request, engine).hint ?? '';
  };
  const shorter = 'shorten it, or drop the oldest turns: "truncate": true, svc run --truncate';
  assert.is(
    hint('CONTEXT_OVERFLOW', 32_768, true),
    `${shorter}; the model was trained for this length; for more, use a model with a longer context`,
  );
  assert.is(
    hint('CONTEXT_OVERFLOW', 4096, false),
    `${shorter}; or set a longer context: svc config set models.m.context_length N (the model was trained for 32768)`,
  );
  assert.is(
    hint('CONTEXT_OVERFLOW', 12_288, true),
    `${shorter}; no longer context fits into memory (the model was trained for 32768): unload other models (svc model unload NAME), or svc config set models.m.cache_type q8_0, and load it again`,
  );
  assert.not.match(hint('CONTEXT_OVERFLOW', 12_288, true, true), /q8_0/);
  assert.is(
    hint('OUT_OF_MEMORY', 32_768, true),
    `${shorter}; for more memory, unload other models (svc model unload NAME), or svc config set models.m.cache_type q8_0`,
  );
});

test('a recording alone is not shortened by dropping turns', () => {
  const sound = { type: 'audio', media: '', format: 'wav' };
  const content = [sound, { type: 'text', text: 'Transcribe it' }] as never;
  const hint = (...turns: string[]): string => {
    const messages = [
      ...turns.map((text) => ({ role: 'user' as const, content: text })),
      { role: 'user' as const, content },
    ];
    const error = new SvcError('CONTEXT_OVERFLOW', 'it has 40000 tokens');
    return explained(error, { messages, sampling: {}, stop: [] }, { info: null, plan: null }).hint ?? '';
  };
  assert.match(hint(), /^send smaller or fewer pictures, or a shorter recording; /);
  assert.match(hint('Hello'), /^shorten it, or drop the oldest turns/);
});

test('what is no chat has no turns to drop', () => {
  const hint = (request: Parameters<typeof explained>[1]): string => {
    const error = new SvcError('CONTEXT_OVERFLOW', 'input[0] has 600 tokens');
    return explained(error, request, { info: null, plan: null }).hint ?? '';
  };
  const raw = { messages: [], sampling: {}, stop: [], raw: { text: 'a' } };
  for (const request of [{ input: ['a'] }, { query: 'q', documents: ['a'] }, raw]) {
    assert.match(hint(request), /^shorten it, or have it cut off: "truncate": true; /);
    assert.match(hint({ ...request, truncate: true }), /^shorten it; /);
  }
});

test('the first restart has no delay; each further one doubles it, up to a minute', () => {
  assert.equal([1, 2, 3, 4, 5, 20].map(restartDelayMs), [0, 500, 1000, 2000, 4000, 60_000]);
});

test.run();
