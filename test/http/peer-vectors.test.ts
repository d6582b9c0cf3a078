/** Embeddings and reranking at another svc daemon, alone and in a cluster: two real daemons, real models. */
import { APIError, type OpenAI } from 'openai';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { ask } from './ask.ts';
import { spawnDaemon, type DaemonProcess } from '../support/daemon.ts';
import { failureOf } from '../support/failure.ts';
import { configure, makeHome, type Home } from '../support/home.ts';
import { openAiClient } from '../support/openai.ts';
import { endServing, serve, type Serving } from '../support/serving.ts';

let peer: Serving;
let home: Home;
let daemon: DaemonProcess;
let client: OpenAI;
let ports: { readonly peer: number; readonly front: number };

test.before(async () => {
  peer = await serve({ bert: 'tiny-bert', ranker: 'tiny-rank' });
  const { http } = await peer.daemon.client.status();
  const base_url = `http://${String(http)}/v1`;
  home = await makeHome();
  const providers = { peer: { base_url }, farm: { base_url: ['http://127.0.0.1:9/v1', base_url] } };
  configure(home, { providers });
  daemon = await spawnDaemon(home).settled();
  client = await openAiClient(daemon);
  const front = (await daemon.client.status()).http;
  const portOf = (address: unknown): number => Number(String(address).split(':').at(-1));
  ports = { peer: portOf(http), front: portOf(front) };
});
test.after(async () => {
  await endServing({ home, daemon });
  await endServing(peer);
});

const INPUTS = [
  ['The river runs.', 'Seven boats wait.', 'Grüße aus Köln! 你好'],
  [[5, 6, 7], [8]],
];

test('vectors and usage are those of the peer', async () => {
  for (const input of INPUTS as OpenAI.EmbeddingCreateParams['input'][]) {
    const direct = await peer.client.embeddings.create({ model: 'bert', input });
    for (const model of ['peer/bert', 'farm/bert']) {
      const { data, usage } = await client.embeddings.create({ model, input });
      assert.equal(data, direct.data, model);
      assert.equal(usage, direct.usage, model);
    }
  }
});

test('what the peer refuses is refused with the same status', async () => {
  const asked = (model: string, more: object = {}): Promise<APIError> =>
    failureOf(APIError, client.embeddings.create({ model, input: 'word '.repeat(20_000), ...more }));
  for (const model of ['peer/bert', 'farm/bert']) {
    assert.is((await asked(model)).status, 400);
    assert.is((await asked(model, { truncate: true })).status, 400, 'a provider gets every input whole');
    assert.is((await asked(model, { input: 'a', dimensions: 3 })).status, 400);
  }
  assert.is((await asked('peer/none', { input: 'a' })).status, 404);
});

test('scores and usage are those of the peer', async () => {
  const body = { query: 'What is a panda?', documents: ['hi', 'The giant panda is a bear.', ''] };
  const direct = await ask({ port: ports.peer }, '/v1/rerank', { body: { ...body, model: 'ranker' } });
  const { results, usage } = direct.json();
  assert.is(results.length, 3);
  for (const model of ['peer/ranker', 'farm/ranker']) {
    const answer = await ask({ port: ports.front }, '/v1/rerank', { body: { ...body, model } });
    assert.equal([answer.json().results, answer.json().usage], [results, usage], model);
  }
});

test.run();
