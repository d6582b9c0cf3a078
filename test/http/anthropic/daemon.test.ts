/** End to end with Anthropic's client: a real daemon, local models with random weights, a provider. */
import { join } from 'node:path';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import type Anthropic from '@anthropic-ai/sdk';
import { AuthenticationError, BadRequestError, NotFoundError } from '@anthropic-ai/sdk';
import { addKey } from '../../../src/home/key-file.ts';
import { chunk } from '../../backends/cloud/cloud-support.ts';
import { startUpstream, type Upstream } from '../../backends/cloud/upstream.ts';
import { anthropicAt, anthropicClient, anthropicFailure, paramOf } from '../../support/anthropic.ts';
import { spawnDaemon, type DaemonProcess } from '../../support/daemon.ts';
import { configure, makeHome, type Home } from '../../support/home.ts';
import { png, projectorPath } from '../../support/media-files.ts';
import { modelPath } from '../../support/native-engine.ts';
import { svc } from '../../support/svc.ts';

let home: Home;
let upstream: Upstream;
let daemon: DaemonProcess;
let client: Anthropic;

test.before(async () => {
  home = await makeHome();
  upstream = await startUpstream(async (turn) => {
    if (turn.request.method === 'GET') return turn.json(200, {});
    await turn.event(chunk({ role: 'assistant', content: 'Hello from elsewhere' }));
    await turn.event(chunk({}, 'stop', { usage: { prompt_tokens: 5, completion_tokens: 4 } }));
    await turn.event('[DONE]');
    turn.end();
  });
  const farm = { kind: 'openai_compatible', base_url: `${upstream.url}/v1`, default_model: 'm' };
  configure(home, { providers: { farm }, policies: { away: { candidates: ['farm', 'local'] } } });
  for (const args of [
    [modelPath('tiny-qwen2'), '--name', 'caller'],
    [modelPath('tiny-thinker'), '--name', 'thinker'],
    [modelPath('tiny-llama'), '--name', 'sees', '--projector', projectorPath('clip')],
  ]) {
    const { code, stderr } = await svc(['model', 'add', ...args], { home });
    assert.is(code, 0, stderr);
  }
  daemon = await spawnDaemon(home).settled();
  client = await anthropicClient(daemon);
});
test.after(async () => {
  daemon.kill('SIGTERM');
  const { code } = await daemon.exit;
  await upstream.close();
  await home.remove();
  assert.is(code, 0);
});

type Params = Omit<Anthropic.MessageCreateParamsNonStreaming, 'stream'>;

const user = (content: Anthropic.MessageParam['content']): Anthropic.MessageParam => ({ role: 'user', content });
const ASK: Params = { model: 'caller', max_tokens: 16, messages: [user('Will it rain?')] };
/** Fields that the types of this version of the client do not have. */
const seeded = (params: Params): Params => ({ ...params, ...({ seed: 7 } as object) });
const inputOf = ({ usage }: Anthropic.Message): number => usage.input_tokens + (usage.cache_read_input_tokens ?? 0);
const textOf = ({ content }: Anthropic.Message): string =>
  content.map((block) => (block.type === 'text' ? block.text : '')).join('');

/** Every value is bounded, so that random weights come to an end. */
const TOOL: Anthropic.Tool = {
  name: 'forecast',
  description: 'Forecasts the weather',
  input_schema: {
    type: 'object',
    properties: { city: { enum: ['Paris', 'Oslo'] }, days: { type: 'integer', minimum: 1, maximum: 99 } },
    required: ['city', 'days'],
    additionalProperties: false,
  },
};

test('a text, whole, streamed, and with the helper of the client', async () => {
  const params = seeded({ ...ASK, system: [{ type: 'text', text: 'Be brief.' }] });
  const whole = await client.messages.create(params);
  assert.ok(textOf(whole).length > 0);
  assert.is(whole.stop_reason, 'max_tokens');
  assert.is(whole.usage.output_tokens, 16);
  const stream = client.messages.stream(params);
  let begun = 0;
  stream.on('streamEvent', (event) => {
    if (event.type === 'message_start') begun = event.message.usage.input_tokens;
  });
  const final = await stream.finalMessage();
  assert.is(textOf(final), textOf(whole));
  assert.is(begun, inputOf(whole));
  assert.is(inputOf(final), inputOf(whole));
  assert.ok(inputOf(whole) > 0);
});

test('the tokens of a prompt are counted before it is sent', async () => {
  const { max_tokens, ...prompt } = { ...ASK, system: 'Be brief.', tools: [TOOL] };
  const { input_tokens } = await client.messages.countTokens(prompt);
  assert.is(input_tokens, inputOf(await client.messages.create({ ...prompt, max_tokens })));
  const plain = await client.messages.countTokens({ model: 'caller', messages: ASK.messages });
  assert.ok(plain.input_tokens < input_tokens);
  const refused = await anthropicFailure(client.messages.countTokens({ ...prompt, model: 'farm/m' }));
  assert.instance(refused, BadRequestError);
});

test('a limit of 0 tokens has the next request find its prompt in the prefix cache', async () => {
  const params = { ...ASK, system: 'Few words, and only about tomorrow. '.repeat(8) };
  const { content, usage } = await client.messages.create({ ...params, max_tokens: 0 });
  assert.equal([content, usage.output_tokens], [[], 0]);
  const answer = await client.messages.create(params);
  const cached = answer.usage.cache_read_input_tokens ?? 0;
  assert.ok(cached > inputOf(answer) / 2, `${String(cached)} of ${String(inputOf(answer))}`);
});

test('a stop sequence ends the text', async () => {
  const text = textOf(await client.messages.create(seeded(ASK)));
  const stop = text.slice(3, 6);
  const stopped = await client.messages.create(seeded({ ...ASK, stop_sequences: [stop] }));
  assert.is(textOf(stopped), text.slice(0, text.indexOf(stop)));
  assert.is(stopped.stop_reason, 'stop_sequence');
  assert.is(stopped.stop_sequence, stop);
});

test('a last message of the assistant is continued', async () => {
  const asked = await client.messages.create(ASK);
  const continued = await client.messages.create({
    ...ASK,
    messages: [...ASK.messages, { role: 'assistant', content: 'It rains' }],
  });
  assert.is(inputOf(continued), inputOf(asked) + 2);
  assert.not.match(textOf(continued), /^It rains/);
});

test("a coding agent's changing header does not break the prefix cache", async () => {
  const words = 'You are a coding agent. '.repeat(40);
  const turn = async (hash: string): Promise<Anthropic.Usage> => {
    const header = `x-anthropic-billing-header: cc_version=2.1.330.${hash}; cc_entrypoint=cli; cch=${hash}00;`;
    const system: Anthropic.TextBlockParam[] = [
      { type: 'text', text: header },
      { type: 'text', text: words, cache_control: { type: 'ephemeral' } },
    ];
    return (await client.messages.create({ ...ASK, system, max_tokens: 1 })).usage;
  };
  await turn('a1b');
  const { input_tokens, cache_read_input_tokens } = await turn('0ff');
  const cached = cache_read_input_tokens ?? 0;
  assert.ok(cached > 0.95 * (cached + input_tokens), `${String(cached)} and ${String(input_tokens)}`);
});

function isValid(input: unknown): boolean {
  const { city, days, ...others } = input as Record<string, unknown>;
  const isDays = Number.isInteger(days) && Number(days) >= 1 && Number(days) <= 99;
  return ['Paris', 'Oslo'].includes(String(city)) && isDays && Object.keys(others).length === 0;
}

test('a call, its result, and the answer', async () => {
  const tools: Anthropic.ToolUnion[] = [TOOL, { type: 'web_search_20250305', name: 'web_search' }];
  const params: Params = { ...ASK, max_tokens: 200, tools };
  const forced = seeded({ ...params, tool_choice: { type: 'any', disable_parallel_tool_use: true } });
  const first = await client.messages.create(forced);
  assert.is(first.stop_reason, 'tool_use');
  const [call, ...others] = first.content;
  assert.is(others.length, 0);
  assert.ok(call?.type === 'tool_use');
  assert.is(call.name, 'forecast');
  assert.ok(isValid(call.input), JSON.stringify(call.input));

  const streamed = await client.messages.stream(forced).finalMessage();
  assert.equal(
    streamed.content.map((block) => (block.type === 'tool_use' ? { name: block.name, input: block.input } : block)),
    [{ name: call.name, input: call.input }],
  );

  const second = await client.messages.create({
    ...params,
    max_tokens: 16,
    tool_choice: { type: 'none' },
    messages: [
      ...ASK.messages,
      { role: 'assistant', content: first.content },
      user([
        { type: 'tool_result', tool_use_id: call.id, content: [{ type: 'text', text: 'It rained.' }] },
        { type: 'text', text: 'So?' },
      ]),
    ],
  });
  assert.ok(textOf(second).length > 0);
  assert.is(second.stop_reason, 'max_tokens');
});

test('a JSON schema', async () => {
  const { properties, required } = TOOL.input_schema;
  const schema = { type: 'object', properties, required, additionalProperties: false };
  const answer = await client.messages.create({
    ...ASK,
    max_tokens: 200,
    output_config: { format: { type: 'json_schema', schema } },
  });
  assert.ok(isValid(JSON.parse(textOf(answer))), textOf(answer));
  const odd = { ...schema, properties: { ...(properties as object), city: { not: {} } } };
  const error = await anthropicFailure(
    client.messages.create({ ...ASK, output_config: { format: { type: 'json_schema', schema: odd } } }),
  );
  assert.is(paramOf(error), 'output_config.format.schema.properties.city.not');
});

test('thinking within its budget, off, and without its text', async () => {
  const ask = (thinking: object): Params => ({ ...ASK, model: 'thinker', max_tokens: 40, thinking: thinking as never });
  const thoughtsOf = ({ content }: Anthropic.Message): string | undefined =>
    content.find((block) => block.type === 'thinking')?.thinking;
  const params = seeded(ask({ type: 'enabled', budget_tokens: 8 }));
  const whole = await client.messages.create(params);
  assert.equal(
    whole.content.map(({ type }) => type),
    ['thinking', 'text'],
  );
  assert.ok((thoughtsOf(whole) ?? '').length > 0 && textOf(whole).length > 0);
  const streamed = await client.messages.stream(params).finalMessage();
  assert.equal(streamed.content, whole.content);
  const hidden = await client.messages.create(seeded(ask({ type: 'enabled', budget_tokens: 8, display: 'omitted' })));
  assert.is(thoughtsOf(hidden), '');
  assert.is(textOf(hidden), textOf(whole));
  const off = await client.messages.create(ask({ type: 'disabled' }));
  assert.is(thoughtsOf(off), undefined);
  assert.ok(textOf(off).length > 0);
  const again = await client.messages.create({
    ...params,
    messages: [...ASK.messages, { role: 'assistant', content: whole.content }, user('And then?')],
  });
  assert.ok(textOf(again).length > 0);
  const continued = async ({ content }: Anthropic.Message): Promise<number> => {
    const last: Anthropic.MessageParam = { role: 'assistant', content: content.slice(0, 1) };
    return inputOf(await client.messages.create({ ...params, messages: [...ASK.messages, last] }));
  };
  assert.is(await continued(hidden), await continued(whole));
});

test('a model that does not think ignores wishes about it', async () => {
  for (const thinking of [
    { type: 'adaptive' },
    { type: 'enabled', budget_tokens: 1024 },
    { type: 'disabled' },
  ] as Anthropic.ThinkingConfigParam[]) {
    const answer = await client.messages.create({ ...ASK, thinking, output_config: { effort: 'high' } });
    assert.ok(textOf(answer).length > 0);
  }
});

test('a picture, in a message and in a result', async () => {
  const bytes = png(100, 60, (x, y) => [255, x * 2, y * 3]);
  const image: Anthropic.ImageBlockParam = {
    type: 'image',
    source: { type: 'base64', media_type: 'image/png', data: bytes.toString('base64') },
  };
  const params = { ...ASK, model: 'sees' };
  const blind = await client.messages.create(params);
  const seen = await client.messages.create({
    ...params,
    messages: [user([image, { type: 'text', text: 'Will it rain?' }])],
  });
  assert.ok(inputOf(seen) > inputOf(blind) + 3, `${String(inputOf(seen))} and ${String(inputOf(blind))}`);
  const error = await anthropicFailure(
    client.messages.create({ ...ASK, messages: [user([{ type: 'text', text: 'What is this?' }, image])] }),
  );
  assert.instance(error, BadRequestError);
  const read: Anthropic.MessageParam[] = [
    user('x'),
    { role: 'assistant', content: [{ type: 'tool_use', id: 'a', name: 'Read', input: {} }] },
    user([{ type: 'tool_result', tool_use_id: 'a', content: [image] }]),
  ];
  const unseen = await client.messages.create({ ...ASK, messages: read });
  assert.ok(inputOf(unseen) > 0);
  const far: Anthropic.ImageBlockParam = { type: 'image', source: { type: 'url', url: 'https://a.example/b.png' } };
  const refused = await anthropicFailure(client.messages.create({ ...params, messages: [user('x'), user([far])] }));
  assert.is(paramOf(refused), 'messages[1].content[0]');
});

test('providers and policies', async () => {
  for (const model of ['farm/m', 'away']) {
    const answer = await client.messages.create({
      ...ASK,
      model,
      thinking: { type: 'enabled', budget_tokens: 8192 },
    });
    assert.is(textOf(answer), 'Hello from elsewhere');
    assert.equal([answer.usage.input_tokens, answer.usage.output_tokens], [5, 4]);
    const body = upstream.asked.at(-1)?.body as Record<string, unknown>;
    assert.equal([body['max_tokens'] ?? body['max_completion_tokens'], body['reasoning_effort']], [16, 'medium']);
  }
});

test('models are listed', async () => {
  const ids: string[] = [];
  for await (const { id } of client.models.list()) ids.push(id);
  for (const id of ['caller', 'thinker', 'sees']) assert.ok(ids.includes(id), ids.join(' '));
  assert.is((await client.models.retrieve('caller')).id, 'caller');
});

test('errors of the engine and of the request name the fields', async () => {
  const refusals: readonly (readonly [Partial<Params>, string])[] = [
    [
      { messages: [user([{ type: 'tool_result', tool_use_id: 'x', content: 'y' }])] },
      'messages[0].content[0].tool_use_id',
    ],
    [{ tools: [TOOL], tool_choice: { type: 'tool', name: 'nothing' } }, 'tool_choice'],
    [{ tools: [{ ...TOOL, strict: true, input_schema: { type: 'object', not: {} } }] }, 'tools[0].input_schema.not'],
    [{ messages: [] }, 'messages'],
  ];
  for (const [fields, param] of refusals) {
    for (const stream of [false, true]) {
      const error = await anthropicFailure(client.messages.create({ ...ASK, ...fields, stream }));
      assert.instance(error, BadRequestError);
      assert.is(paramOf(error), param);
      assert.ok(String(error.apiMessage).startsWith(param), String(error.apiMessage));
    }
  }
  for (const model of ['huge', 'file:/etc/passwd'])
    assert.instance(await anthropicFailure(client.messages.create({ ...ASK, model })), NotFoundError);
  const long = await anthropicFailure(client.messages.create({ ...ASK, messages: [user('rain '.repeat(200_000))] }));
  assert.equal([long.status, long.type], [400, 'invalid_request_error']);
  assert.match(String(long.apiMessage), /^prompt is too long: (at least )?\d{5,} tokens > \d{4,} maximum; /);
});

test('a key is asked for once there is one, by either header', async () => {
  const { key } = await addKey(join(home.dir, 'data', 'keys.json'), 'editor', 'inference');
  const url = `http://${String((await daemon.client.status()).http)}`;
  assert.instance(await anthropicFailure(anthropicAt(url, 'wrong').messages.create(ASK)), AuthenticationError);
  assert.ok(textOf(await anthropicAt(url, key).messages.create(ASK)).length > 0);
  const response = await fetch(`${url}/v1/messages`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', 'x-api-key': key },
    body: JSON.stringify(ASK),
  });
  assert.is(response.status, 200);
});

test.run();
