/** One streamed chat of a benchmark: what counts as a piece, and which models are measured. */
import { once } from 'node:events';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { ask, type Answer } from '../../bench/peers/ask.ts';
import { user } from '../../bench/peers/scenario.ts';
import { parts } from '../../bench/peers/subjects.ts';
import { PRESETS } from '../make-model/presets.ts';

const test = suite<{ server: Server; deltas: readonly object[] }>('bench ask');

test.before.each(async (context) => {
  context.server = createServer((_, response) => {
    const send = (event: object): void => void response.write(`data: ${JSON.stringify({ model: 'm', ...event })}\n\n`);
    for (const [number, delta] of context.deltas.entries()) send({ choices: [{ index: number % 2, delta }] });
    send({ choices: [{ delta: {}, finish_reason: 'stop' }] });
    send({ choices: [], usage: { prompt_tokens: 5, completion_tokens: 7 } });
    response.end('data: [DONE]\n\n');
  }).listen(0, '127.0.0.1');
  await once(context.server, 'listening');
});
test.after.each(({ server }) => void server.close());

async function askFor(
  context: { server: Server; deltas: readonly object[] },
  deltas: readonly object[],
): Promise<Answer> {
  context.deltas = deltas;
  const { port } = context.server.address() as AddressInfo;
  return await ask({ url: `http://127.0.0.1:${String(port)}`, vocabulary: 100 }, user('hi', 8));
}

test('text and parts of tool calls are pieces', async (context) => {
  const part = (text: string): object => ({ tool_calls: [{ index: 0, function: { arguments: text } }] });
  const answer = await askFor(context, [{ role: 'assistant', content: null }, { content: 'a' }, part('{'), part('}')]);
  assert.is(answer.pieces.length, 3);
  assert.is(answer.text, 'a');
  assert.is(answer.outputTokens, 7);
  assert.is(answer.firsts.length, 2);
});

test('an answer without any piece fails', async (context) => {
  const failure = await askFor(context, [{ role: 'assistant', content: '' }, { tool_calls: [] }]).then(
    () => null,
    (error: unknown) => (error as Error).message,
  );
  assert.is(failure, 'incomplete answer after 0 pieces of text');
});

test('every measured model is made by a preset with its context', () => {
  for (const { make, contextLength = 0, scenarios } of parts('/root').flatMap(({ subjects }) => subjects)) {
    const preset = PRESETS[make?.[0] as keyof typeof PRESETS];
    assert.ok(preset.contextLength >= contextLength, preset.name);
    assert.ok(scenarios.length > 0, preset.name);
  }
});

test.run();
