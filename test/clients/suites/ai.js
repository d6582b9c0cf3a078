/** The AI SDK with four providers, each in the way that it asks by itself. */
import { createAnthropic } from '@ai-sdk/anthropic';
import { createOpenAI } from '@ai-sdk/openai';
import { createOpenAICompatible } from '@ai-sdk/openai-compatible';
import { APICallError, embedMany, generateText, isStepCount, jsonSchema, Output, streamText, tool } from 'ai';
import { createOllama } from 'ollama-ai-provider-v2';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import * as svc from './daemon.js';

/** The daemon's answers alone are shown, not the warnings of the SDK about settings that a provider has not. */
globalThis.AI_SDK_LOG_WARNINGS = false;

const openai = (apiKey) => createOpenAI({ baseURL: `${svc.URL}/v1`, apiKey });
const compatible = (apiKey) =>
  createOpenAICompatible({
    name: 'svc',
    baseURL: `${svc.URL}/v1`,
    apiKey,
    includeUsage: true,
    supportsStructuredOutputs: true,
  });
const anthropic = (apiKey) => createAnthropic({ baseURL: `${svc.URL}/v1`, apiKey });
const ollama = (apiKey) => createOllama({ baseURL: `${svc.URL}/api`, headers: { authorization: `Bearer ${apiKey}` } });

/**
 * `models(key)` returns the provider's models by name; `options`: what it has beside the settings of the SDK; `think`:
 * its options for reasoning in a few tokens; `wrong`: a setting that svc refuses, and the field in the error.
 */
const PROVIDERS = {
  '@ai-sdk/openai, chat': {
    models: (key) => openai(key).chat,
    options: { openai: { parallelToolCalls: false } },
    embedding: openai(svc.KEY).textEmbeddingModel,
  },
  '@ai-sdk/openai, responses': {
    models: (key) => openai(key).responses,
    options: { openai: { parallelToolCalls: false } },
    think: { openai: { forceReasoning: true, reasoningSummary: 'auto' } },
  },
  '@ai-sdk/openai-compatible': {
    models: (key) => compatible(key),
    options: { svc: { parallel_tool_calls: false } },
    embedding: compatible(svc.KEY).textEmbeddingModel,
    think: { svc: { reasoning_budget_tokens: 8 } },
  },
  '@ai-sdk/anthropic': {
    models: (key) => anthropic(key),
    options: { anthropic: { disableParallelToolUse: true, structuredOutputMode: 'outputFormat' } },
    think: { anthropic: { thinking: { type: 'enabled', budgetTokens: 8 } } },
    wrong: [{ stopSequences: Array.from({ length: 100 }, String) }, /stop_sequences/],
  },
  'ollama-ai-provider-v2': {
    models: (key) => ollama(key),
    // It sends settings of the SDK under names that Ollama does not read, and no choice of tools.
    options: { ollama: { options: { num_predict: 30, temperature: 0 } } },
    long: { ollama: { options: { num_predict: 5000, temperature: 0 } } },
    isFreeToCall: true,
    embedding: ollama(svc.KEY).textEmbeddingModel,
    think: { ollama: { think: true, options: { num_predict: 30 } } },
    wrong: [{ providerOptions: { ollama: { options: { num_predict: 0.5 } } } }, /num_predict/],
    tooLong: 413,
  },
};

const FEW = { prompt: svc.QUESTION, maxOutputTokens: 30, temperature: 0, maxRetries: 0 };
const FORECAST = {
  description: 'Forecasts the weather',
  inputSchema: jsonSchema(svc.SCHEMA),
};

/** Resolves with the error that the stream reports. */
async function streamFailure(params) {
  let error;
  const { stream } = streamText({ ...params, onError: (event) => (error = event.error) });
  await svc.drain(stream[Symbol.asyncIterator]());
  return error;
}

function answers(test, model, { options, long = options }) {
  const few = { ...FEW, providerOptions: options };
  test('text, whole and streamed', async () => {
    const whole = await generateText({ ...few, model: model('plain') });
    assert.ok(whole.text.length > 0);
    assert.is(whole.finishReason, 'length');
    const streamed = streamText({ ...few, model: model('plain') });
    let joined = '';
    for await (const piece of streamed.textStream) joined += piece;
    assert.is(joined, whole.text);
    assert.equal([await streamed.finishReason, (await streamed.usage).outputTokens], ['length', 30]);
    assert.is((await streamed.usage).inputTokens, whole.usage.inputTokens);
  });

  test('structured output, whole and streamed', async () => {
    const ask = {
      ...few,
      providerOptions: long,
      model: model('plain'),
      maxOutputTokens: 200,
      output: Output.object({ schema: jsonSchema(svc.SCHEMA) }),
    };
    const { output } = await generateText(ask);
    svc.assertFits(output);
    assert.equal(await streamText(ask).output, output);
  });

  test('a picture is seen', async () => {
    const ask = { ...few, model: model('sees') };
    const blind = await generateText(ask);
    const content = [
      { type: 'text', text: svc.QUESTION },
      { type: 'file', data: svc.PICTURE_URL, mediaType: 'image/png' },
    ];
    const seen = await generateText({ ...ask, prompt: undefined, messages: [{ role: 'user', content }] });
    assert.ok(seen.usage.inputTokens > blind.usage.inputTokens + 3);
  });
}

function tools(test, model, { options, isFreeToCall = false }) {
  if (isFreeToCall) return;
  test('a forced call runs its tool, and an answer follows; streamed alike', async () => {
    const inputs = [];
    const ask = {
      ...FEW,
      providerOptions: options,
      model: model('caller'),
      maxOutputTokens: 200,
      tools: { forecast: tool({ ...FORECAST, execute: async (input) => inputs.push(input) && 'It rained.' }) },
      toolChoice: { type: 'tool', toolName: 'forecast' },
      prepareStep: ({ stepNumber }) => (stepNumber === 0 ? {} : { toolChoice: 'none' }),
      stopWhen: isStepCount(2),
    };
    const { steps, text } = await generateText(ask);
    svc.assertFits(inputs[0]);
    assert.is(steps.length, 2);
    assert.ok(text.length > 0);
    const streamed = streamText(ask);
    assert.is(await streamed.text, text);
    assert.equal(inputs[1], inputs[0]);
  });
}

function troubles(
  test,
  models,
  { options, long = options, wrong = [{ temperature: -1 }, /temperature/], tooLong = 400 },
) {
  const model = models(svc.KEY);

  test('an abort stops the generation', async () => {
    await svc.assertAbortStops(async (abortSignal) => {
      const { textStream } = streamText({
        ...FEW,
        providerOptions: long,
        model: model('plain'),
        maxOutputTokens: 5000,
        abortSignal,
        onError: () => undefined,
      });
      return await svc.begun(textStream);
    });
  });

  test('errors have their status, whole and streamed', async () => {
    const cases = [
      [{ model: model('huge') }, 404, /huge/],
      [{ model: model('plain'), ...wrong[0] }, 400, wrong[1]],
      [{ model: model('plain'), prompt: svc.LONG }, tooLong, /\d{4,}/],
      [{ model: models('wrong')('plain') }, 401, /key/],
    ];
    for (const [params, status, message] of cases) {
      const whole = await svc.failureOf(generateText({ ...FEW, ...params }));
      for (const error of [whole, await streamFailure({ ...FEW, ...params })]) {
        assert.ok(APICallError.isInstance(error), String(error));
        assert.is(error.statusCode, status, error.message);
        // The provider of Ollama expects errors in OpenAI's format, and keeps others as the body.
        assert.match(`${error.message} ${error.responseBody}`, message);
      }
    }
  });
}

for (const [name, provider] of Object.entries(PROVIDERS)) {
  const { models, options, embedding, think } = provider;
  const test = suite(name);
  const model = models(svc.KEY);
  answers(test, model, provider);
  tools(test, model, provider);
  troubles(test, models, provider);

  if (think !== undefined) {
    test('reasoning comes apart, whole and streamed', async () => {
      const ask = { ...FEW, model: model('thinker'), maxOutputTokens: 40, providerOptions: { ...options, ...think } };
      assert.ok((await generateText(ask)).reasoningText.length > 0);
      assert.ok((await streamText(ask).reasoningText).length > 0);
    });
  }

  if (embedding !== undefined) {
    test('embeddings', async () => {
      const { embeddings } = await embedMany({ model: embedding('vectors'), values: ['rain', 'sun'] });
      assert.equal(
        embeddings.map((vector) => vector.length),
        [64, 64],
      );
    });
  }
  test.run();
}
