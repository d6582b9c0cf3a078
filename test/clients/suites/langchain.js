/** LangChain's clients: of OpenAI (both APIs), Anthropic and Ollama. */
import { ChatAnthropic } from '@langchain/anthropic';
import { AIMessage, HumanMessage, ToolMessage } from '@langchain/core/messages';
import { ChatOllama, OllamaEmbeddings } from '@langchain/ollama';
import { ChatOpenAI, OpenAIEmbeddings } from '@langchain/openai';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import * as svc from './daemon.js';

const openai = (apiKey) => ({ apiKey, configuration: { baseURL: `${svc.URL}/v1` }, maxRetries: 0 });
const ollama = (key) => ({ baseUrl: svc.URL, headers: { authorization: `Bearer ${key}` }, maxRetries: 0 });

/** `make(settings, key)` returns a chat model; `limit`: the name of its setting for the output's length. */
const CLIENTS = {
  '@langchain/openai, chat': {
    make: (settings, key = svc.KEY) => new ChatOpenAI({ ...openai(key), useResponsesApi: false, ...settings }),
    limit: 'maxTokens',
    embeddings: new OpenAIEmbeddings({ ...openai(svc.KEY), model: 'vectors' }),
    forced: { tool_choice: 'forecast', parallel_tool_calls: false },
  },
  '@langchain/openai, responses': {
    make: (settings, key = svc.KEY) => new ChatOpenAI({ ...openai(key), useResponsesApi: true, ...settings }),
    limit: 'maxTokens',
    // Its parser of JSON takes only text from a stream, and its chunks of Responses are lists of blocks.
    streamsStructured: false,
    failsByEvent: true,
    forced: { tool_choice: 'forecast', parallel_tool_calls: false },
  },
  '@langchain/anthropic': {
    make: (settings, apiKey = svc.KEY) =>
      new ChatAnthropic({ apiKey, anthropicApiUrl: svc.URL, maxRetries: 0, ...settings }),
    limit: 'maxTokens',
    // It turns the values of an enum into a description, so only its forced call is bounded.
    structured: ['caller', 'functionCalling'],
    // Its parser reads a call's block without the pieces of its input.
    streamsStructured: false,
    forced: { tool_choice: { type: 'tool', name: 'forecast', disable_parallel_tool_use: true } },
  },
  '@langchain/ollama': {
    make: (settings, key = svc.KEY) => new ChatOllama({ ...ollama(key), ...settings }),
    limit: 'numPredict',
    looksAtPieces: true,
    // It knows no prompt that is too long.
    tooLong: [413, 'ResponseError'],
    embeddings: new OllamaEmbeddings({ ...ollama(svc.KEY), model: 'vectors' }),
  },
};

const FORECAST = { name: 'forecast', description: 'Forecasts the weather', schema: svc.SCHEMA };

function answers(test, few, { structured: [name, method] = ['plain', 'jsonSchema'], streamsStructured = true }) {
  test('text, whole and streamed', async () => {
    const model = few({ model: 'plain' });
    const whole = await model.invoke(svc.QUESTION);
    assert.ok(whole.text.length > 0);
    assert.is(whole.usage_metadata.output_tokens, 30);
    let joined = '';
    let usage;
    for await (const piece of await model.stream(svc.QUESTION)) {
      joined += piece.text;
      usage = piece.usage_metadata ?? usage;
    }
    assert.is(joined, whole.text);
    assert.ok(usage.output_tokens > 0);
  });

  test('structured output, whole and streamed', async () => {
    const model = few({ model: name }, 200).withStructuredOutput(svc.SCHEMA, { method });
    const whole = await model.invoke(svc.QUESTION);
    svc.assertFits(whole);
    if (!streamsStructured) return;
    let last;
    for await (const piece of await model.stream(svc.QUESTION)) last = piece;
    assert.equal(last, whole);
  });

  test('a picture is seen, whole and streamed', async () => {
    const model = few({ model: 'sees' });
    const content = [
      { type: 'text', text: svc.QUESTION },
      { type: 'image_url', image_url: { url: svc.PICTURE_URL } },
    ];
    const blind = await model.invoke(svc.QUESTION);
    const seen = await model.invoke([new HumanMessage({ content })]);
    assert.ok(seen.usage_metadata.input_tokens > blind.usage_metadata.input_tokens + 3);
    let streamed;
    for await (const piece of await model.stream([new HumanMessage({ content })]))
      streamed = streamed?.concat(piece) ?? piece;
    assert.is(streamed.text, seen.text);
  });
}

function tools(test, few, forced) {
  test('a call, its result, the answer', async () => {
    const model = few({ model: 'caller' }, 200);
    const tool = { type: 'function', function: { ...FORECAST, parameters: svc.SCHEMA } };
    let asked = new AIMessage({
      content: '',
      tool_calls: [{ id: 'call1', name: 'forecast', args: { city: 'Oslo', days: 1 } }],
    });
    if (forced !== undefined) {
      const bound = model.bindTools([tool], forced);
      asked = await bound.invoke(svc.QUESTION);
      svc.assertFits(asked.tool_calls[0].args);
      let streamed;
      for await (const piece of await bound.stream(svc.QUESTION)) streamed = streamed?.concat(piece) ?? piece;
      assert.equal(streamed.tool_calls[0].args, asked.tool_calls[0].args);
    }
    const result = new ToolMessage({ content: 'It rained.', tool_call_id: asked.tool_calls[0].id, name: 'forecast' });
    const turns = [new HumanMessage(svc.QUESTION), asked, result];
    const answer = await few({ model: 'caller' }).bindTools([tool]).invoke(turns);
    assert.ok(answer.text.length > 0 || answer.tool_calls.length > 0);
  });
}

/** `failsByEvent`: a streamed answer to a prompt that is too long ends by an event, which has no status. */
function troubles(
  test,
  few,
  make,
  { looksAtPieces = false, failsByEvent = false, tooLong = [400, 'ContextOverflowError'] },
) {
  test('an abort stops the generation', async () => {
    const model = few({ model: 'plain' }, 5000);
    await svc.assertAbortStops(
      async (signal) => svc.begun(await model.stream(svc.QUESTION, { signal })),
      !looksAtPieces,
    );
    // ChatOllama stops reading but leaves its request open, which would keep this program alive until the daemon closes
    // the idle connection.
    if (looksAtPieces) model.client.abort();
  });

  test('errors have their status', async () => {
    const cases = [
      [few({ model: 'huge' }), svc.QUESTION, 404, /huge/],
      [few({ model: 'plain', temperature: -1 }), svc.QUESTION, 400, /temperature/],
      [few({ model: 'plain' }), svc.LONG, tooLong[0], /\d{4,}/, tooLong[1]],
      [make({ model: 'plain' }, 'wrong'), svc.QUESTION, 401, /key/],
    ];
    for (const [model, question, status, message, name] of cases) {
      const streamed = async () => svc.drain((await model.stream(question))[Symbol.asyncIterator]());
      for (const ask of [() => model.invoke(question), streamed]) {
        const error = await svc.failureOf(ask());
        const isEvent = failsByEvent && question === svc.LONG && ask === streamed;
        const found = error.status ?? error.status_code ?? error.cause?.status;
        assert.is(found, isEvent ? undefined : status, String(error));
        assert.match(String(error.message), message);
        if (name !== undefined) assert.is(error.name, name);
      }
    }
  });
}

for (const [name, client] of Object.entries(CLIENTS)) {
  const { make, limit, embeddings, forced } = client;
  const test = suite(name);
  const few = (settings, tokens = 30) => make({ temperature: 0, [limit]: tokens, ...settings });
  answers(test, few, client);
  tools(test, few, forced);
  troubles(test, few, make, client);
  if (embeddings !== undefined) {
    test('embeddings', async () => {
      const vectors = await embeddings.embedDocuments(['rain', 'sun']);
      assert.equal(
        vectors.map((vector) => vector.length),
        [64, 64],
      );
    });
  }
  test.run();
}
