/** OpenAI Responses, Anthropic and Gemini over real sockets: answers that are cut, slow, broken or refused. */
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import type { Api } from '../../../src/backends/cloud/provider.ts';
import type { GenerateEvent, GenerateRequest, Message } from '../../../src/protocol/generate.ts';
import { collect, conformance, context, failure } from '../conformance.ts';
import { ask, cloud, KEY, openConnections, type Cloud } from './cloud-support.ts';
import * as geminis from './recorded-gemini.ts';
import { MODELS_PAGE } from './recorded-chat-completions.ts';
import * as anthropics from './recorded-messages.ts';
import * as openais from './recorded-responses.ts';
import { recorded, startUpstream, type Script, type Turn, type Upstream } from './upstream.ts';
import { WEATHER, type Recorded } from './wire-support.ts';

interface Subject {
  readonly api: Api;
  readonly model: string;
  readonly keyHeader: string;
  readonly keyed: string;
  readonly path: string;
  readonly hello: readonly Recorded[];
  readonly calls: readonly Recorded[];
  readonly usage: object;
  /** One event that contains `text`. */
  readonly piece: (text: string) => Recorded;
  readonly inside: Recorded;
  /** Further refusals of the server: status, body and the expected error code. */
  readonly refusals: readonly (readonly [status: number, body: unknown, code: string])[];
  readonly pages: readonly unknown[];
  readonly models: readonly string[];
  /** Picks the tool results out of the second request of a conversation with tools. */
  readonly results: (body: any) => unknown;
}

const anthropicError = (type: string, message: string): object => ({ type: 'error', error: { type, message } });
const openAiError = (code: string | null, type: string, message: string): object => ({
  error: { message, type, param: null, code },
});
const geminiError = (code: number, status: string, message: string): object => ({ error: { code, message, status } });

const SUBJECTS: readonly Subject[] = [
  {
    api: 'responses',
    model: openais.MODEL,
    keyHeader: 'authorization',
    keyed: `Bearer ${KEY}`,
    path: '/responses',
    hello: openais.HELLO,
    calls: openais.THOUGHT_AND_CALLS,
    usage: { input_tokens: 25, output_tokens: 15, cached_tokens: 0, reasoning_tokens: 8 },
    piece: openais.text,
    inside: openais.FAILED,
    refusals: [
      [429, openAiError('rate_limit_exceeded', 'requests', 'Slow down'), 'BUSY'],
      [401, openAiError('invalid_api_key', 'invalid_request_error', 'Incorrect API key'), 'PROVIDER_AUTH'],
      [404, openAiError('model_not_found', 'invalid_request_error', 'The model x does not exist'), 'MODEL_NOT_FOUND'],
      [400, openAiError(null, 'invalid_request_error', 'Unknown parameter'), 'INVALID_REQUEST'],
      [400, openAiError('context_length_exceeded', 'invalid_request_error', 'Too long'), 'CONTEXT_OVERFLOW'],
      [500, openAiError(null, 'server_error', 'The server had an error'), 'PROVIDER_FAILED'],
    ],
    pages: [
      { ...MODELS_PAGE, has_more: true, last_id: 'openai/gpt-oss-120b' },
      { object: 'list', data: [{ id: 'gpt-6.1-sol', object: 'model' }] },
    ],
    models: ['gpt-6.1-terra', 'openai/gpt-oss-120b', 'gpt-6.1-sol'],
    results: (body) => body.input.slice(-2).map((item: any) => [item.call_id, item.output]),
  },
  {
    api: 'messages',
    model: 'claude-sonnet-5-5',
    keyHeader: 'x-api-key',
    keyed: KEY,
    path: '/v1/messages',
    hello: anthropics.HELLO,
    calls: anthropics.THOUGHT_AND_CALLS,
    usage: { input_tokens: 25, output_tokens: 15, cached_tokens: 0 },
    piece: (text) => [
      'content_block_delta',
      { type: 'content_block_delta', index: 0, delta: { type: 'text_delta', text } },
    ],
    inside: anthropics.OVERLOADED,
    refusals: [
      [529, anthropicError('overloaded_error', 'Overloaded'), 'BUSY'],
      [429, anthropicError('rate_limit_error', 'Slow down'), 'BUSY'],
      [401, anthropicError('authentication_error', 'invalid x-api-key'), 'PROVIDER_AUTH'],
      [404, anthropicError('not_found_error', 'model: x'), 'MODEL_NOT_FOUND'],
      [400, anthropicError('invalid_request_error', 'temperature: no'), 'INVALID_REQUEST'],
      [400, anthropicError('invalid_request_error', 'prompt is too long: 3 > 2'), 'CONTEXT_OVERFLOW'],
      [500, anthropicError('api_error', 'Internal server error'), 'PROVIDER_FAILED'],
      [502, '<html>Bad Gateway</html>', 'PROVIDER_FAILED'],
    ],
    pages: [anthropics.MODELS_PAGE, { data: [{ id: 'claude-opus-4-6' }], has_more: false, last_id: 'claude-opus-4-6' }],
    models: ['claude-sonnet-5-5', 'claude-haiku-5-5', 'claude-opus-4-6'],
    results: (body) => body.messages.at(-1).content.map((block: any) => [block.tool_use_id, block.content[0].text]),
  },
  {
    api: 'gemini',
    model: 'gemini-3.8-flash',
    keyHeader: 'x-goog-api-key',
    keyed: KEY,
    path: '/models/gemini-3.8-flash:streamGenerateContent?alt=sse',
    hello: geminis.HELLO,
    calls: geminis.THOUGHT_AND_CALLS,
    usage: { input_tokens: 4, output_tokens: 26, cached_tokens: 0, reasoning_tokens: 20 },
    piece: (text) => [undefined, { candidates: [{ content: { parts: [{ text }], role: 'model' }, index: 0 }] }],
    inside: geminis.OVERLOADED,
    refusals: [
      [503, geminiError(503, 'UNAVAILABLE', 'The model is overloaded.'), 'BUSY'],
      [429, geminiError(429, 'RESOURCE_EXHAUSTED', 'Quota exceeded'), 'BUSY'],
      [400, geminis.BAD_KEY, 'PROVIDER_AUTH'],
      [403, geminiError(403, 'PERMISSION_DENIED', 'no'), 'PROVIDER_AUTH'],
      [404, geminiError(404, 'NOT_FOUND', 'models/x is not found'), 'MODEL_NOT_FOUND'],
      [400, geminiError(400, 'INVALID_ARGUMENT', 'Unknown name "x"'), 'INVALID_REQUEST'],
      [
        400,
        geminiError(
          400,
          'INVALID_ARGUMENT',
          'The input token count (9) exceeds the maximum number of tokens allowed (8).',
        ),
        'CONTEXT_OVERFLOW',
      ],
      [500, [geminiError(500, 'INTERNAL', 'An internal error has occurred.')], 'PROVIDER_FAILED'],
    ],
    pages: [geminis.MODELS_PAGE, { models: [{ name: 'models/gemini-2.5-flash' }] }],
    models: ['gemini-3.8-flash', 'gemini-embedding-001', 'tunedModels/mine', 'gemini-2.5-flash'],
    results: (body) =>
      body.contents.at(-1).parts.map(({ functionResponse: { id, response } }: any) => [id, response.output]),
  },
];

const lines = ([name, data]: Recorded): string =>
  `${name === undefined ? '' : `event: ${name}\r\n`}data: ${JSON.stringify(data)}\r\n\r\n`;

const textOf = (events: readonly GenerateEvent[]): string =>
  events.map((event) => (event.type === 'text' ? event.text : '')).join('');

const owned = openConnections();

for (const subject of SUBJECTS) {
  const { api, model, hello } = subject;

  const test = suite(`${api} over sockets`);

  /** Runs `body` with a provider that answers by `script`; checks that no connection is left open. */
  const it = (what: string, script: Script, body: (cloud: Cloud, upstream: Upstream) => Promise<void>): void => {
    test(what, async () => {
      const upstream = await startUpstream(script);
      const subject = cloud(upstream.url, { api, defaultModel: model });
      try {
        await body(subject, upstream);
      } finally {
        await subject.backend.close();
        await upstream.close();
      }
    });
  };
  const generate = ({ backend }: Cloud, changes: Partial<GenerateRequest> = {}): Promise<GenerateEvent[]> =>
    collect(backend.generate(ask('Hi', changes), context()));

  it(
    'an answer has text, usage and model, and the key is sent in the header of the API',
    recorded(hello),
    async (cloud, upstream) => {
      const events = await generate(cloud);
      assert.equal(events[0], { type: 'start', model, provider: 'acme' });
      assert.is(textOf(events), 'Hello! 👋 Grüße');
      const finish = events.at(-1);
      assert.ok(finish?.type === 'finish');
      assert.is(finish.reason, 'stop');
      assert.equal(finish.usage, subject.usage);
      const [asked] = upstream.asked;
      assert.is(asked?.path, subject.path);
      assert.is(asked?.headers[subject.keyHeader], subject.keyed);
      assert.not.match(asked?.path ?? '', KEY);
      assert.not.match(JSON.stringify(asked?.body), KEY);
    },
  );

  it(
    'cuts inside characters and lines, comments and empty lines do not change the answer',
    async (turn) => {
      await turn.bytes(`: hello\r\n\r\n${hello.map(lines).join(': still there\r\n\r\n\r\n')}`);
      turn.end();
    },
    async (cloud) => {
      const events = await generate(cloud);
      assert.is(textOf(events), 'Hello! 👋 Grüße');
      assert.is(events.at(-1)?.type, 'finish');
    },
  );

  test('text is delivered as it arrives', async () => {
    let goOn: () => void = () => undefined;
    const isRead = new Promise<void>((resolve) => (goOn = resolve));
    const upstream = await startUpstream(async (turn) => {
      await turn.event(subject.piece('early')[1], subject.piece('')[0]);
      await isRead;
      await recorded(hello)(turn);
    });
    const { backend } = cloud(upstream.url, { api, defaultModel: model });
    let text = '';
    for await (const event of backend.generate(ask(), context())) {
      if (event.type === 'text') text += event.text;
      if (text === 'early') goOn();
    }
    assert.is(text, 'earlyHello! 👋 Grüße');
    await backend.close();
    await upstream.close();
  });

  it(
    'a connection reset mid-stream is a failure',
    async (turn) => {
      for (const [name, data] of hello.slice(0, -1)) await turn.event(data, name);
      turn.reset();
    },
    async (cloud) => {
      assert.is((await failure(generate(cloud))).code, 'PROVIDER_FAILED');
    },
  );

  it('a stream without its final event is a failure', recorded(hello.slice(0, -1)), async (cloud) => {
    assert.is((await failure(generate(cloud))).code, 'PROVIDER_FAILED');
  });

  it(
    'an error inside the stream is thrown after the text before it',
    recorded([subject.piece('Hel'), subject.inside]),
    async (cloud) => {
      const seen: GenerateEvent[] = [];
      const error = await failure(
        (async () => {
          for await (const event of cloud.backend.generate(ask(), context())) seen.push(event);
        })(),
      );
      assert.is(textOf(seen), 'Hel');
      assert.is(error.code, 'BUSY');
    },
  );

  for (const [status, body, code] of subject.refusals) {
    const what = typeof body === 'string' ? 'no JSON' : JSON.stringify(body).slice(0, 80);
    it(
      `${String(status)} with ${what} is ${code}`,
      (turn) => turn.json(status, body),
      async (cloud) => {
        assert.is((await failure(generate(cloud))).code, code);
      },
    );
  }

  it(
    'an error with status 200 is an error',
    (turn) => turn.json(200, subject.inside[1]),
    async (cloud) => {
      assert.is((await failure(generate(cloud))).code, 'BUSY');
    },
  );

  it(
    'a key that the provider repeats is neither returned nor logged',
    (turn) =>
      turn.json(401, { error: { message: `bad key ${KEY}`, type: 'authentication_error', status: 'UNAUTHENTICATED' } }),
    async (cloud) => {
      const error = await failure(generate(cloud));
      assert.match(error.told, 'bad key');
      assert.not.match(JSON.stringify([error.toRecord(), cloud.log]), KEY);
    },
  );

  it('a conversation with tools makes the full round trip', recorded(subject.calls), async (cloud, upstream) => {
    const calls: { id: string; name: string; arguments: string }[] = [];
    for (const event of await generate(cloud, { tools: [WEATHER] })) {
      if (event.type !== 'tool_call') continue;
      const call = (calls[event.index] ??= { id: event.id ?? '', name: event.name ?? '', arguments: '' });
      call.arguments += event.arguments;
    }
    const messages: Message[] = [
      { role: 'user', content: 'Hi' },
      { role: 'assistant', content: '', reasoning: 'hm', tool_calls: calls },
      ...calls.map(({ id, name }) => ({ role: 'tool' as const, tool_call_id: id, content: name })),
    ];
    upstream.script(recorded(hello));
    assert.is(textOf(await generate(cloud, { tools: [WEATHER], messages })), 'Hello! 👋 Grüße');
    assert.equal(
      subject.results(upstream.asked.at(-1)?.body),
      calls.map(({ id, name }) => [id, name]),
    );
  });

  let page = 0;
  it(
    'the models of all pages are returned as one list',
    (turn) => turn.json(200, subject.pages[page++]),
    async (cloud, upstream) => {
      assert.equal(await cloud.backend.modelNames(new AbortController().signal), subject.models);
      assert.is(upstream.asked.length, 2);
      assert.is(upstream.asked[1]?.headers[subject.keyHeader], subject.keyed);
    },
  );

  test.run();

  conformance(`cloud backend, ${api}`, async () => {
    const answers = (turn: Turn): Promise<void> => Promise.resolve(recorded(hello)(turn));
    const endless = async (turn: Turn): Promise<void> => {
      while (!turn.isOver) await turn.event(subject.piece('x'.repeat(8 * 1024))[1], subject.piece('')[0]);
    };
    const upstream = await startUpstream(async (turn) => {
      if (turn.request.method === 'GET') return turn.json(200, subject.pages[1]);
      const asked = JSON.stringify([turn.request.path, turn.request.body]);
      if (asked.includes('nothing-of-this-name'))
        return turn.json(404, subject.refusals.find(([status]) => status === 404)?.[1]);
      return asked.includes('endless') ? endless(turn) : answers(turn);
    });
    return {
      backend: cloud(upstream.url, { api, defaultModel: model }).backend,
      short: ask('short'),
      endless: ask('endless'),
      unknown: ask('short', { model: 'nothing-of-this-name' }),
      work: upstream.written,
      owned,
      dispose: upstream.close,
    };
  });
}
