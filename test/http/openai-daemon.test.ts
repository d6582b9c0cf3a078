/** End to end with the official client: HTTP, routing, the engine process, the built-in model. */
import { setMaxListeners } from 'node:events';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import type OpenAI from 'openai';
import { NotFoundError } from 'openai';
import { openAiAt } from '../support/openai.ts';
import { readyStatus, spawnDaemon, type DaemonProcess } from '../support/daemon.ts';
import { enginePid, hold, holdEngines, LONG_CONTEXT } from '../support/hold.ts';
import { configure, makeHome, type Home } from '../support/home.ts';
import { modelPath } from '../support/native-engine.ts';
import { svc } from '../support/svc.ts';
import { waitFor } from '../support/wait.ts';
import { failure } from './api-failure.ts';
import { ask } from './ask.ts';

let home: Home;
let daemon: DaemonProcess;
let port: number;
let client: OpenAI;

test.before(async () => {
  home = await makeHome();
  configure(home, LONG_CONTEXT);
  await svc(['model', 'add', modelPath('tiny-llama'), '--name', 'random'], { home });
  daemon = await spawnDaemon(home).settled();
  const { http } = await readyStatus(daemon.client);
  port = Number(String(http).split(':').at(-1));
  client = openAiAt(`http://127.0.0.1:${String(port)}`);
});
test.after(async () => {
  daemon.kill('SIGTERM');
  const { code } = await daemon.exit;
  await home.remove();
  assert.is(code, 0);
});

const messages: OpenAI.ChatCompletionMessageParam[] = [
  { role: 'system', content: 'You are brief.' },
  { role: 'user', content: 'Tell me about llamas, please.' },
];
const FEW = { model: 'default', messages, max_completion_tokens: 12, temperature: 1, seed: 7 };
/** The bias forces the same token, so the answer does not end before its context is full. */
const ENDLESS = { model: 'default', messages, logit_bias: { '100': 100 } } as const;

type Params = Omit<OpenAI.ChatCompletionCreateParamsNonStreaming, 'stream'>;

async function streamed(
  params: Params,
): Promise<{ text: string; finish: string | null; usage: OpenAI.CompletionUsage | null; pieces: number }> {
  const stream = await client.chat.completions.create({
    ...params,
    stream: true,
    stream_options: { include_usage: true },
  });
  let text = '';
  let finish: string | null = null;
  let usage: OpenAI.CompletionUsage | null = null;
  let pieces = 0;
  for await (const chunk of stream) {
    const [choice] = chunk.choices;
    if (choice?.delta.content !== undefined && choice.delta.content !== '') pieces += 1;
    text += choice?.delta.content ?? '';
    finish = choice?.finish_reason ?? finish;
    usage = chunk.usage ?? usage;
  }
  return { text, finish, usage, pieces };
}

async function whole(params: Params): Promise<string> {
  return (await client.chat.completions.create(params)).choices[0]?.message.content ?? '';
}

/** Number of queued and active requests together: a stopped engine does not report which. */
const running = async (): Promise<number> => {
  const { active, waiting } = (await daemon.client.health()).queue;
  return active + waiting;
};

test('n choices compute their prompt once, with a seed or without', async () => {
  const computed = async (): Promise<number> => {
    const { models } = await daemon.client.health();
    return models.reduce((sum, { steps }) => sum + (steps?.prompt_tokens ?? 0), 0);
  };
  const { seed, ...random } = FEW;
  for (const more of [{}, { seed }]) {
    const content = `${more.seed === undefined ? 'a' : 'one'} river of llamas `.repeat(100);
    const before = await computed();
    const asked = { ...random, ...more, messages: [{ role: 'user' as const, content }], n: 8 };
    const { choices, usage } = await client.chat.completions.create(asked);
    const prompt = usage?.prompt_tokens ?? 0;
    const spent = (await computed()) - before;
    assert.ok(prompt > 200 && spent >= prompt && spent < 1.5 * prompt, `${String(spent)} of ${String(prompt)}`);
    assert.ok(new Set(choices.map(({ message }) => message.content)).size > 1);
  }
});

test('n choices with a seed are what n requests with the next seeds are', async () => {
  const { choices } = await client.chat.completions.create({ ...FEW, model: 'random', n: 4 });
  const alone: string[] = [];
  for (const index of choices.keys()) {
    const params = { ...FEW, model: 'random', seed: FEW.seed + index };
    alone.push(await whole(params));
  }
  assert.is(new Set(alone).size, 4);
  assert.equal(
    choices.map(({ message }) => message.content),
    alone,
  );
});

test('streamed and whole answers have the same text and usage', async () => {
  // Long enough to arrive in several pieces even on a busy machine.
  const more = { ...FEW, model: 'random', max_completion_tokens: 100 };
  const parts = await streamed(more);
  const answer = await client.chat.completions.create(more);
  assert.is(parts.text, answer.choices[0]?.message.content);
  assert.is(parts.finish, answer.choices[0]?.finish_reason);
  assert.ok(parts.pieces > 1, 'it came in pieces');
  assert.is(parts.usage?.completion_tokens, answer.usage?.completion_tokens);
  assert.is(parts.usage?.prompt_tokens, answer.usage?.prompt_tokens);
  assert.ok((parts.usage?.prompt_tokens ?? 0) > 10);
  assert.is(typeof answer.usage?.prompt_tokens_details?.cached_tokens, 'number');
  assert.is(answer.model, 'random');
  const { timings } = answer as unknown as { timings: { ttft_ms: number; total_ms: number } };
  assert.ok(timings.ttft_ms > 0 && timings.ttft_ms <= timings.total_ms);
});

test('the same seed repeats the text, another seed changes it', async () => {
  const drawn = { ...FEW, model: 'random' };
  const other = { ...drawn, seed: 8 };
  assert.is(await whole(drawn), await whole(drawn));
  assert.is.not(await whole(drawn), await whole(other));
});

test('max tokens, stop strings and logit bias take effect', async () => {
  const cut = await streamed({ ...ENDLESS, max_completion_tokens: 10 });
  assert.equal([cut.finish, cut.usage?.completion_tokens], ['length', 10]);
  const piece = cut.text.slice(0, cut.text.length / 10);
  assert.is(cut.text, piece.repeat(10), 'the biased token only');

  const text = await whole(FEW);
  const stop = text.slice(10, 13);
  const stopped = await client.chat.completions.create({ ...FEW, stop: ['\u0001never', stop] });
  assert.is(stopped.choices[0]?.finish_reason, 'stop');
  assert.is(stopped.choices[0]?.message.content, text.slice(0, text.indexOf(stop)));
});

const SCHEMA = {
  type: 'object',
  properties: {
    city: { type: 'string', pattern: '^[A-Z][a-z]{2,8}$' },
    population: { type: 'integer', minimum: 1, maximum: 40_000_000 },
    river: { enum: ['Rhine', 'Seine', null] },
  },
  required: ['city', 'population', 'river'],
  additionalProperties: false,
};

test('the answer follows a schema, streamed and whole, with the built-in and a random model', async () => {
  for (const model of ['default', 'random']) {
    const params: Params = {
      ...FEW,
      model,
      max_completion_tokens: 200,
      response_format: { type: 'json_schema', json_schema: { name: 'city', strict: true, schema: SCHEMA } },
    };
    const parts = await streamed(params);
    assert.is(parts.finish, 'stop', parts.text);
    const { city, population, river } = JSON.parse(parts.text) as Record<string, unknown>;
    assert.match(String(city), /^[A-Z][a-z]{2,8}$/);
    assert.ok(Number.isInteger(population) && Number(population) >= 1 && Number(population) <= 40_000_000);
    assert.ok(['Rhine', 'Seine', null].includes(river as string | null));
    assert.is(await whole(params), parts.text);
  }
});

test('the answer follows a grammar and json_object, also when cut off', async () => {
  const yesOrNo = await client.chat.completions.create({ ...FEW, grammar: 'root ::= "yes" | "no"' } as Params);
  assert.ok(['yes', 'no'].includes(yesOrNo.choices[0]?.message.content ?? ''));
  const object = { ...FEW, model: 'random', response_format: { type: 'json_object' as const } };
  const cut = await client.chat.completions.create({ ...object, max_completion_tokens: 2 });
  assert.is(cut.choices[0]?.finish_reason, 'length');
  assert.ok(cut.choices[0]?.message.content?.startsWith('{'));
});

test('a format that cannot be enforced is refused under the field name of the caller, streamed or not', async () => {
  const schema = { type: 'object', properties: { a: { type: 'number', multipleOf: 0.1 } } };
  const cases: readonly [fields: object, param: string][] = [
    [
      { response_format: { type: 'json_schema', json_schema: { name: 'x', schema } } },
      'response_format.json_schema.schema.properties.a.multipleOf',
    ],
    [{ json_schema: schema }, 'json_schema.properties.a.multipleOf'],
    [{ json_schema: { anyOf: [{ $ref: '#' }] } }, 'json_schema'],
    [{ grammar: 'root ::= "a" |\n  (b' }, 'grammar'],
    [{ grammar: 'root ::= root "a" | "b"' }, 'grammar'],
  ];
  for (const [fields, param] of cases) {
    for (const stream of [true, false]) {
      const error = await failure(client.chat.completions.create({ ...FEW, ...fields, stream }));
      assert.equal([error.status, error.param], [400, param]);
      assert.ok(error.message.includes(`${param} cannot be enforced`), error.message);
    }
  }
});

test('known malicious grammars are refused or bounded, and the engine keeps running', async () => {
  const { pid } = (await daemon.client.health()).models.find(({ id }) => id === 'builtin') ?? {};
  const paths = Array.from({ length: 40 }, (_, i) => `r${String(i)} ::= r${String(i + 1)} "x" | r${String(i + 1)} "y"`);
  const refused = [
    'root ::= ' + '('.repeat(60_000),
    'root ::= "a"' + '*'.repeat(60_000),
    'root ::= "a"{2000000000}',
    'root ::= ((("a"{1000}){1000}){1000}){1000}',
    'root ::= ("a"? | "b"?){50000}',
    'root ::= ' + '['.repeat(100_000),
    ['root ::= r0', ...paths, 'r40 ::= "z"'].join('\n'),
  ];
  for (const grammar of refused) {
    const error = await failure(client.chat.completions.create({ ...FEW, grammar } as Params));
    assert.equal([error.status, error.param], [400, 'grammar'], grammar.slice(0, 60));
  }
  let deep: object = {};
  for (let i = 0; i < 3000; i++) deep = { items: deep };
  for (const json_schema of [deep, { pattern: '('.repeat(1000) }, { type: 'string', maxLength: 1e15 }]) {
    const error = await failure(client.chat.completions.create({ ...FEW, json_schema } as Params));
    assert.is(error.status, 400);
  }
  // Each byte leads to a new grammar state, and the end is far away for any output.
  const endless =
    'root ::= (' +
    Array.from('abcdefghij ')
      .map((c) => `"${c}" root "${c}"`)
      .join(' | ') +
    ` | "${'x'.repeat(1000)}")`;
  const answer = await client.chat.completions.create({
    ...FEW,
    max_completion_tokens: 60,
    grammar: endless,
  } as Params);
  assert.is(answer.choices[0]?.finish_reason, 'length');
  assert.is((await daemon.client.health()).models.find(({ id }) => id === 'builtin')?.pid, pid);
});

test('probabilities of the tokens and of alternatives are returned', async () => {
  const params: Params = { ...FEW, logprobs: true, top_logprobs: 3 };
  const { choices } = await client.chat.completions.create(params);
  const told = choices[0]?.logprobs?.content ?? [];
  assert.ok(told.length > 8 && told.length <= 12);
  const bytes = told.flatMap((token) => token.bytes ?? []);
  assert.is(Buffer.from(bytes).toString(), choices[0]?.message.content);
  for (const { token, logprob, top_logprobs } of told) {
    assert.is(top_logprobs.length, 3);
    assert.ok(logprob <= 0 && (top_logprobs[0]?.logprob ?? 1) >= logprob, token);
    const sum = top_logprobs.reduce((total, other) => total + Math.exp(other.logprob), 0);
    assert.ok(sum > 0 && sum < 1.0001);
  }
  const stream = await client.chat.completions.create({ ...params, stream: true });
  const streamedTokens: string[] = [];
  for await (const { choices } of stream) {
    const content = choices[0]?.logprobs?.content ?? [];
    if (content.length > 0) assert.ok((choices[0]?.delta.content ?? '') !== '');
    streamedTokens.push(...content.map(({ token }) => token));
  }
  assert.equal(
    streamedTokens,
    told.map(({ token }) => token),
  );
  const plain = await client.chat.completions.create(FEW);
  assert.is(plain.choices[0]?.logprobs, null);
  assert.is(plain.choices[0]?.message.content, choices[0]?.message.content, 'telling changes nothing');
});

test('eight requests at once each get exactly their own answer', async () => {
  const params = Array.from({ length: 8 }, (_, i) => ({ ...FEW, logit_bias: { [String(300 + i)]: 100 } }));
  const alone: string[] = [];
  for (const one of params) alone.push(await whole(one));
  assert.is(new Set(alone).size, 8);
  assert.equal(await Promise.all(params.map(async (one) => (await streamed(one)).text)), alone);
});

test('an unknown model, a file path and a prompt that is too long are errors', async () => {
  for (const model of ['huge', 'file:/etc/passwd', 'local/file:/etc/passwd']) {
    const error = await failure(client.chat.completions.create({ ...FEW, model }));
    assert.instance(error, NotFoundError);
    assert.is(error.code, 'model_not_found');
    assert.not.ok(error.message.includes('passwd') && error.message.includes('GGUF'), 'nothing was read');
  }
  const long = [{ role: 'user' as const, content: 'llama '.repeat(70_000) }];
  for (const stream of [true, false]) {
    const error = await failure(client.chat.completions.create({ ...FEW, messages: long, stream }));
    assert.equal([error.status, error.code], [400, 'context_length_exceeded']);
    assert.ok((error.message.match(/\d{4,}/g)?.length ?? 0) >= 2, `both numbers: ${error.message}`);
  }
});

test('disconnecting from a streamed or whole answer stops the generation in the engine', async () => {
  const stream = await client.chat.completions.create({ ...ENDLESS, stream: true });
  const pieces = stream[Symbol.asyncIterator]();
  await pieces.next();
  const first = await holdEngines(daemon.client);
  await pieces.return?.();
  await waitFor('the router to forget it', async () => (await running()) === 0);
  first.release();

  // The stopped engine does not see the request before its client has disconnected.
  const second = await holdEngines(daemon.client);
  const gone = new AbortController();
  const answer = failure(client.chat.completions.create(ENDLESS, { signal: gone.signal }));
  await waitFor('the generation', async () => (await running()) === 1);
  gone.abort();
  await answer;
  second.release();
  await waitFor('the engine to free its cells', async () => {
    const { models } = await daemon.client.health();
    return models.every(({ active, waiting }) => active === 0 && waiting === 0);
  });
});

test('models can be listed and retrieved', async () => {
  const ids: string[] = [];
  for await (const model of client.models.list()) ids.push(model.id);
  assert.equal(ids, ['builtin', 'random']);
  assert.is((await client.models.retrieve('default')).id, 'builtin');
});

test('an engine killed mid-stream: the stream fails, and the next request is answered', async () => {
  const pid = await enginePid(daemon.client);
  const stream = await client.chat.completions.create({ ...ENDLESS, stream: true });
  let isKilled = false;
  const error = await failure(
    (async () => {
      for await (const { choices } of stream) {
        if (isKilled || !choices[0]?.delta.content) continue;
        // Stopped first, so that the answer cannot end before the kill.
        hold(pid);
        isKilled = process.kill(pid, 'SIGKILL');
      }
    })(),
  );
  assert.ok(isKilled);
  assert.is(error.code, 'engine_crashed');
  assert.ok((await whole(FEW)).length > 0);
});

test('liveness and readiness answer while the engine is saturated', async () => {
  const gone = new AbortController();
  setMaxListeners(0, gone.signal);
  // Requests are repeated because an answer ends when its context is full, soon on a fast machine.
  const load = Array.from({ length: 16 }, async () => {
    while (!gone.signal.aborted) {
      await client.chat.completions.create(ENDLESS, { signal: gone.signal }).catch((error: unknown) => {
        if (!gone.signal.aborted) throw error;
      });
    }
  });
  await waitFor('the load', async () => (await running()) === 16);
  const probe = async (): Promise<void> => {
    for (let i = 0; i < 150; i += 1) {
      const { status } = await ask({ port }, ['/livez', '/readyz', '/v1/runtime/health'][i % 3] ?? '');
      assert.is(status, 200);
    }
  };
  await probe();
  // An answer that needed anything of the engine would not come.
  const held = await holdEngines(daemon.client);
  await probe();
  assert.is(await running(), 16);
  held.release();
  gone.abort();
  await Promise.all(load);
});

test('no prompt appears in the log', () => {
  assert.ok(daemon.log.length > 0);
  const log = JSON.stringify([daemon.log, daemon.stray]);
  for (const word of ['Tell me about llamas', 'You are brief', 'Question 3']) assert.not.ok(log.includes(word));
});

test.run();
