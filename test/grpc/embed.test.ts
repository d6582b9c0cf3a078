/** svc.v1.Inference.Embed over scripted services. */
import { status } from '@grpc/grpc-js';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { SvcError } from '../../src/protocol/errors.ts';
import { aborted, FINISH, measured, START } from '../http/scripted.ts';
import { waitFor } from '../support/wait.ts';
import { failureOf, startScriptedGrpc, type ScriptedGrpc, type TestClient } from './scripted.ts';

let grpc: ScriptedGrpc;
let client: TestClient;
test.before(async () => {
  grpc = await startScriptedGrpc();
  client = grpc.connect();
});
test.after(() => grpc.stop());
test.before.each(() => {
  grpc.backend.embedScript = measured;
  grpc.backend.embedRequests.length = 0;
});

const embed = (request: object): Promise<any> => client.unary('Inference/Embed', request);

test('embed returns a vector for each input, the model, and usage', async () => {
  const rest = { model: 'tiny', dimensions: 2, truncate: true, context_length: 6000, keep_alive_seconds: 0.5 };
  const answer = await embed({ ...rest, input: [{ text: 'four' }, { tokens: { ids: [1, 2] } }] });
  assert.equal(grpc.backend.embedRequests, [{ ...rest, input: ['four', [1, 2]] }]);
  assert.equal(
    answer.embeddings.map(({ values }: any) => values),
    [
      [4, Math.fround(0.1)],
      [2, Math.fround(1.1)],
    ],
  );
  assert.equal([answer.model, answer.provider, answer.route.chosen], ['tiny', 'local', 'local']);
  assert.match(answer.route.trace_id, /^[0-9a-f]{32}$/);
  assert.is(answer.usage.input_tokens, 7);
  assert.is(answer.timings.total_ms, 3);
});

test('the maximum number of inputs is accepted, and every value is returned', async () => {
  const vector = (at: number): Float32Array => new Float32Array(100).map((_, index) => at + index / 7);
  grpc.backend.embedScript = async function* ({ input }) {
    yield START;
    yield { type: 'vectors', vectors: input.map((_, at) => vector(at)) };
    yield FINISH;
  };
  const { embeddings } = await embed({ input: Array(2048).fill({ text: 'x' }) });
  assert.is(embeddings.length, 2048);
  for (const at of [0, 1, 2047]) assert.equal(embeddings[at].values, Array.from(vector(at)));
});

test('absent fields stay unset', async () => {
  await embed({ input: [{ text: 'x' }] });
  assert.equal(grpc.backend.embedRequests, [{ input: ['x'] }]);
});

test('an invalid field is named, and no backend is called', async () => {
  for (const [request, param] of [
    [{}, 'input'],
    [{ input: [{}] }, 'input[0]'],
    [{ input: [{ text: '' }] }, 'input[0]'],
    [{ input: [{ text: 'a' }, { tokens: { ids: [] } }] }, 'input[1]'],
    [{ input: [{ tokens: { ids: [2 ** 32 - 1] } }] }, 'input[0]'],
    [{ input: Array(2049).fill({ text: 'a' }) }, 'input'],
    [{ input: Array(3).fill({ tokens: { ids: Array(50_000).fill(1) } }) }, 'input'],
    [{ input: [{ text: 'a' }], dimensions: 0 }, 'dimensions'],
  ] as const) {
    const { status: code, reason, metadata } = await failureOf(embed(request));
    assert.equal([code, reason], [status.INVALID_ARGUMENT, 'INVALID_REQUEST']);
    assert.is(metadata['param'], param);
  }
  assert.is((await failureOf(embed({ model: 'file:/x', input: [{ text: 'a' }] }))).reason, 'MODEL_NOT_FOUND');
  assert.equal(grpc.backend.embedRequests, []);
});

test('an error is returned as a status, even after the first vectors', async () => {
  grpc.backend.embedScript = async function* () {
    yield START;
    yield { type: 'vectors', vectors: [Float32Array.of(1)] };
    throw new SvcError('ENGINE_CRASHED', 'gone');
  };
  const failure = await failureOf(embed({ input: [{ text: 'a' }, { text: 'b' }] }));
  assert.equal([failure.status, failure.reason], [status.UNAVAILABLE, 'ENGINE_CRASHED']);
});

test('a cancel and a deadline reach the backend', async () => {
  let reason: unknown;
  grpc.backend.embedScript = async function* (_, { signal }) {
    yield START;
    reason = await aborted(signal);
    throw reason;
  };
  const request = { input: [{ text: 'a' }] };
  const gone = new AbortController();
  const cancelled = failureOf(client.unary('Inference/Embed', request, { signal: gone.signal }));
  await waitFor('the work', () => grpc.router.active + grpc.router.waiting === 1);
  gone.abort();
  assert.is((await cancelled).status, status.CANCELLED);
  await waitFor('the abort', () => (reason as SvcError | undefined)?.code === 'CANCELLED');

  // A deadline may pass before the backend is asked: then it is tried with a longer one.
  reason = undefined;
  let begun = 0;
  for (let ms = 100; begun === 0; ms *= 2) {
    const before = grpc.backend.embedRequests.length;
    const late = await failureOf(client.unary('Inference/Embed', request, { deadline: Date.now() + ms }));
    assert.is(late.status, status.DEADLINE_EXCEEDED);
    begun = grpc.backend.embedRequests.length - before;
  }
  // The client resets the stream when its deadline passes, which may be seen before the daemon's own timer.
  await waitFor('the abort', () => ['TIMEOUT', 'CANCELLED'].includes((reason as SvcError | undefined)?.code ?? ''));
  await waitFor('the router to forget it', () => grpc.router.active + grpc.router.waiting === 0);
});

test.run();
