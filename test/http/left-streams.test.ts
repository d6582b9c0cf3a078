/**
 * A stream of events that ends only when its client leaves is no failed request: neither the console's live views nor
 * the stream of a background response, which goes on. A client that leaves an answer cancels it, which is logged.
 */
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { HTTP_ROUTES } from '../../src/protocol/routes.ts';
import { waitFor } from '../support/wait.ts';
import { open } from './ask.ts';
import { aborted, START, startScripted, text, type ScriptedListener } from './scripted.ts';

let listener: ScriptedListener;
test.before(async () => {
  listener = await startScripted({
    script: async function* (_, { signal }) {
      yield START;
      yield text('Once');
      throw await aborted(signal);
    },
  });
});
test.after(() => listener.stop());

const messages = [{ role: 'user', content: 'A story' }];
const STREAMS: readonly (readonly [path: string, body: object | undefined, isFailure: boolean])[] = [
  [`${HTTP_ROUTES.runtimeLive}?interval_ms=100`, undefined, false],
  [`${HTTP_ROUTES.runtimeLogs}?follow=1`, undefined, false],
  [HTTP_ROUTES.responses, { input: 'A story', background: true, stream: true }, false],
  [HTTP_ROUTES.responses, { input: 'A story', stream: true }, true],
  [HTTP_ROUTES.runtimeGenerate, { messages }, true],
];

for (const [path, body, isFailure] of STREAMS) {
  test(`${path} ${JSON.stringify(body ?? {})}: ${isFailure ? 'a failure' : 'none'}`, async () => {
    const controller = new AbortController();
    const answer = await open(listener, path, { signal: controller.signal, ...(body === undefined ? {} : { body }) });
    assert.is(answer.statusCode, 200);
    answer.on('error', () => undefined).resume();
    const id = answer.headers['x-request-id'];
    controller.abort();
    const linesOf = (): typeof listener.logged => listener.logged.filter((line) => line['id'] === id);
    await waitFor('the line of every request', () => linesOf().some(({ msg }) => msg === 'request'));
    const hasFailed = (): boolean => linesOf().some(({ msg, level }) => msg === 'request failed' && level === 'info');
    if (isFailure) await waitFor('the failure', hasFailed);
    // The handler ends in the turn of the event loop in which its signal is aborted, with the line above.
    await new Promise((resolve) => setImmediate(resolve));
    assert.is(hasFailed(), isFailure);
  });
}

test.run();
