/** svc.v1.Inference.Rerank over scripted services. */
import { status } from '@grpc/grpc-js';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { SvcError } from '../../src/protocol/errors.ts';
import { aborted, scored, START } from '../http/scripted.ts';
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
  grpc.backend.rerankScript = scored;
  grpc.backend.rerankRequests.length = 0;
});

const rerank = (request: object): Promise<any> => client.unary('Inference/Rerank', request);

test('rerank returns the best documents first, the model, and usage', async () => {
  const rest = {
    model: 'tiny',
    query: 'x',
    truncate: true,
    max_document_tokens: 9,
    context_length: 6000,
    keep_alive_seconds: 0.5,
  };
  const documents = ['four', 'seven', ''];
  const answer = await rerank({ ...rest, documents, top_n: 2 });
  assert.equal(grpc.backend.rerankRequests, [{ ...rest, documents }]);
  assert.equal(answer.results, [
    { index: 1, score: 5 },
    { index: 0, score: 4 },
  ]);
  assert.equal([answer.model, answer.provider, answer.route.chosen], ['tiny', 'local', 'local']);
  assert.is(answer.usage.input_tokens, 7);
  assert.is((await rerank({ query: 'x', documents })).results.length, 3);
});

test('an invalid field is named, and no backend is called', async () => {
  for (const [request, param] of [
    [{ documents: ['a'] }, 'query'],
    [{ query: 'x' }, 'documents'],
    [{ query: 'x', documents: Array(1001).fill('a') }, 'documents'],
    [{ query: 'x', documents: ['a'], top_n: 0 }, 'top_n'],
  ] as const) {
    const { status: code, reason, metadata } = await failureOf(rerank(request));
    assert.equal([code, reason], [status.INVALID_ARGUMENT, 'INVALID_REQUEST']);
    assert.is(metadata['param'], param);
  }
  assert.is((await failureOf(rerank({ model: 'file:/x', query: 'x', documents: ['a'] }))).reason, 'MODEL_NOT_FOUND');
  assert.equal(grpc.backend.rerankRequests, []);
});

test('an error and a cancel', async () => {
  grpc.backend.rerankScript = async function* () {
    yield START;
    yield { type: 'scores', scores: [1] };
    throw new SvcError('ENGINE_CRASHED', 'gone');
  };
  const failure = await failureOf(rerank({ query: 'x', documents: ['a', 'b'] }));
  assert.equal([failure.status, failure.reason], [status.UNAVAILABLE, 'ENGINE_CRASHED']);

  let reason: unknown;
  grpc.backend.rerankScript = async function* (_, { signal }) {
    yield START;
    reason = await aborted(signal);
    throw reason;
  };
  const gone = new AbortController();
  const request = { query: 'x', documents: ['a'] };
  const cancelled = failureOf(client.unary('Inference/Rerank', request, { signal: gone.signal }));
  await waitFor('the work', () => grpc.router.active + grpc.router.waiting === 1);
  gone.abort();
  assert.is((await cancelled).status, status.CANCELLED);
  await waitFor('the abort', () => (reason as SvcError | undefined)?.code === 'CANCELLED');
  await waitFor('the router to forget it', () => grpc.router.active + grpc.router.waiting === 0);
});

test.run();
