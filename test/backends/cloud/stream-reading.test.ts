/** How the end of a streamed answer is awaited. */
import { once } from 'node:events';
import { connect, createServer, type AddressInfo, type Socket } from 'node:net';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { AnswerProgress } from '../../../src/backends/cloud/answer-progress.ts';
import { readStream } from '../../../src/backends/cloud/stream-reading.ts';
import { chatCompletions as wire } from '../../../src/backends/cloud/wires/chat-completions/chat-completions.ts';
import { SvcError } from '../../../src/protocol/errors.ts';
import type { GenerateEvent } from '../../../src/protocol/generate.ts';
import { standStill } from '../../support/stand-still.ts';

/** Longer than the wait for usage after the finish reason. */
const STANDSTILL_MS = 2500;

const sse = (data: object): string => `data: ${JSON.stringify(data)}\n\n`;
const FINISHED = sse({ model: 'm', choices: [{ index: 0, delta: { content: 'Hi' }, finish_reason: 'stop' }] });
const USAGE = sse({ model: 'm', choices: [], usage: { prompt_tokens: 7, completion_tokens: 1, total_tokens: 8 } });

test('usage that arrived while this process stood still is read, not given up', async () => {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const body = connect((server.address() as AddressInfo).port, '127.0.0.1');
  const [provider] = (await once(server, 'connection')) as [Socket];
  const reply = {
    status: 200,
    header: () => undefined,
    body,
    failure: (error: unknown) => SvcError.from(error),
  };
  const now = performance.now();
  const progress = new AnswerProgress('mine', 'm', { arrivedAt: now, startedAt: now });
  const events: GenerateEvent[] = [];
  provider.write(FINISHED);
  for await (const read of readStream(reply, wire.reader({}), progress)) {
    const wasFinished = progress.isFinished;
    events.push(...progress.take(read));
    if (!progress.isFinished || wasFinished) continue;
    // The next turn of the loop begins to wait for usage.
    setImmediate(() => {
      provider.end(USAGE);
      standStill(STANDSTILL_MS);
    });
  }
  events.push(...progress.end());
  body.destroy();
  provider.destroy();
  server.close();
  const last = events.at(-1);
  assert.is(last?.type === 'finish' ? last.usage?.input_tokens : null, 7);
});

test.run();
