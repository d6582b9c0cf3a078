/** OpenAI's Agents SDK over both APIs: a run with a tool, whole and streamed. */
import { Agent, OpenAIProvider, Runner, setTracingDisabled, tool } from '@openai/agents';
import OpenAI from 'openai';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import * as svc from './daemon.js';

setTracingDisabled(true);

const runnerOf = (useResponses, apiKey = svc.KEY) => {
  const openAIClient = new OpenAI({ baseURL: `${svc.URL}/v1`, apiKey, maxRetries: 0 });
  return new Runner({ modelProvider: new OpenAIProvider({ openAIClient, useResponses }), tracingDisabled: true });
};
/** The client takes an answer of Responses that a limit has cut for a failure, so a stop string ends it before. */
const FEW = { temperature: 0, maxTokens: 100, providerData: { stop: ['e'] } };
const agent = (model, settings = {}, more = {}) =>
  new Agent({ name: 'weather', instructions: 'Be brief.', model, modelSettings: { ...FEW, ...settings }, ...more });

for (const [name, useResponses] of [
  ['@openai/agents, responses', true],
  ['@openai/agents, chat', false],
]) {
  const test = suite(name);
  const runner = runnerOf(useResponses);

  test('text, whole and streamed', async () => {
    const { finalOutput } = await runner.run(agent('plain'), svc.QUESTION);
    assert.ok(finalOutput.length > 0);
    const streamed = await runner.run(agent('plain'), svc.QUESTION, { stream: true });
    let joined = '';
    for await (const piece of streamed.toTextStream({ compatibleWithNodeStreams: false })) joined += piece;
    await streamed.completed;
    assert.is(joined, finalOutput);
    assert.is(streamed.finalOutput, finalOutput);
  });

  test('a forced call runs its tool, and an answer follows', async () => {
    const inputs = [];
    const forecast = tool({
      name: 'forecast',
      description: 'Forecasts the weather',
      parameters: svc.SCHEMA,
      strict: true,
      execute: async (input) => inputs.push(input) && 'It rained.',
    });
    const forced = { toolChoice: 'forecast', parallelToolCalls: false, maxTokens: 200, providerData: {} };
    for (const stream of [false, true]) {
      const caller = agent('caller', forced, { tools: [forecast], toolUseBehavior: 'stop_on_first_tool' });
      const run = await runner.run(caller, svc.QUESTION, { stream });
      if (stream) await run.completed;
      assert.is(run.finalOutput, 'It rained.');
      const next = await runner.run(agent('caller'), [...run.history, { role: 'user', content: 'So?' }]);
      assert.ok(next.finalOutput.length > 0);
    }
    for (const input of inputs) svc.assertFits(input);
    assert.is(inputs.length, 2);
  });

  test('structured output, whole and streamed', async () => {
    const outputType = { type: 'json_schema', name: 'answer', strict: true, schema: svc.SCHEMA };
    const answering = agent('plain', { maxTokens: 200, providerData: {} }, { outputType });
    for (const stream of [false, true]) {
      const run = await runner.run(answering, svc.QUESTION, { stream });
      if (stream) await run.completed;
      svc.assertFits(run.finalOutput);
    }
  });

  test('a picture is seen, whole and streamed', async () => {
    const content = [
      { type: 'input_text', text: svc.QUESTION },
      { type: 'input_image', image: svc.PICTURE_URL },
    ];
    const blind = await runner.run(agent('sees'), svc.QUESTION);
    for (const stream of [false, true]) {
      const seen = await runner.run(agent('sees'), [{ role: 'user', content }], { stream });
      if (stream) await seen.completed;
      assert.ok(seen.state.usage.inputTokens > blind.state.usage.inputTokens + 3);
    }
  });

  test('an abort stops the generation', async () => {
    await svc.assertAbortStops(async (signal) => {
      const endless = agent('plain', { maxTokens: 5000, providerData: {} });
      const streamed = await runner.run(endless, svc.QUESTION, { stream: true, signal });
      return await svc.begun(streamed.toTextStream({ compatibleWithNodeStreams: false }));
    });
  });

  test('errors have their status and field', async () => {
    // A streamed response that is too long fails by an event, of which this client tells only the type.
    const tooLong = useResponses ? [undefined, /response\.failed/] : [400, /\d{4,}/];
    const cases = [
      [runner, agent('huge'), svc.QUESTION, 404, /huge/],
      [runner, agent('plain', { temperature: -1 }), svc.QUESTION, 400, /temperature/],
      [runner, agent('plain'), svc.LONG, 400, /\d{4,}/, tooLong],
      [runnerOf(useResponses, 'wrong'), agent('plain'), svc.QUESTION, 401, /key/],
    ];
    for (const [by, asked, question, status, message, whenStreamed = [status, message]] of cases) {
      const streamed = async () => {
        const run = await by.run(asked, question, { stream: true });
        await run.completed;
      };
      const asks = [
        [() => by.run(asked, question), status, message],
        [streamed, ...whenStreamed],
      ];
      for (const [ask, expected, pattern] of asks) {
        const error = await svc.failureOf(ask());
        assert.is(error.status, expected, String(error));
        assert.match(error.message, pattern);
      }
    }
  });
  test.run();
}
