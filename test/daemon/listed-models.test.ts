/** Lists of models in every API, of a real daemon with local models, names, a provider and policies. */
import { Ollama } from 'ollama';
import type { Test } from 'uvu';
import * as assert from 'uvu/assert';
import { startUpstream, type Upstream } from '../backends/cloud/upstream.ts';
import { sayHello } from '../backends/cloud/cloud-support.ts';
import { assertExit } from '../support/exit.ts';
import { anthropicAt } from '../support/anthropic.ts';
import { daemonSuite, startIn, type DaemonContext } from '../support/daemon-suite.ts';
import { configure } from '../support/home.ts';
import { modelPath } from '../support/native-engine.ts';
import { openAiAt } from '../support/openai.ts';
import { svc } from '../support/svc.ts';

interface Context extends DaemonContext {
  server: Upstream;
  /** Address of the daemon. */
  url: string;
}

const test: Test<Context> = daemonSuite<Context>('listed models');
test.before.each(async (context) => {
  const { home } = context;
  context.server = await startUpstream(sayHello);
  assertExit(await svc(['model', 'add', modelPath('tiny-qwen2'), '--name', 'tiny'], { home }), 0);
  const config = {
    engine: { threads: 1 },
    models: {
      'org/name': { from: 'tiny' },
      short: { from: 'tiny', context_length: 128, max_tokens: 2 },
      gone: { from: 'nothing' },
    },
    providers: { farm: { base_url: `${context.server.url}/v1`, default_model: 'org/big:free' } },
    policies: { careful: { candidates: ['farm', 'local/short'] }, near: { candidates: ['local/short', 'local'] } },
  };
  configure(home, config);
  const daemon = await startIn(context).settled();
  context.url = `http://${String((await daemon.client.status()).http)}`;
});
test.after.each(({ server }) => server.close());

const ALL = ['builtin', 'tiny', 'org/name', 'short', 'farm/org/big:free', 'careful', 'near'];
const messages = [{ role: 'user' as const, content: 'Hi' }];

test("OpenAI's client lists, shows and uses every name", async ({ url }) => {
  const client = openAiAt(url);
  const listed = (await client.models.list()).data as unknown as { id: string; max_model_len: number | null }[];
  assert.equal(listed.map(({ id }) => id).sort(), [...ALL].sort());
  const lengths = Object.fromEntries(listed.map(({ id, max_model_len }) => [id, max_model_len]));
  assert.equal([lengths['short'], lengths['near'], lengths['careful']], [128, 128, null]);
  assert.ok((lengths['tiny'] ?? 0) > 128);
  for (const model of listed) {
    const { id } = model;
    assert.equal(await client.models.retrieve(id), model, id);
    assert.equal(await (await fetch(`${url}/v1/models/${id}`)).json(), model, `${id}, not encoded`);
  }
  for (const { id } of listed) {
    const { choices } = await client.chat.completions.create({ model: id, messages, max_completion_tokens: 2 });
    assert.ok(choices[0]?.finish_reason, id);
    const props = (await (await fetch(`${url}/props?model=${encodeURIComponent(id)}`)).json()) as {
      default_generation_settings: { n_ctx: number | null };
    };
    const { max_model_len } = (await client.models.retrieve(id)) as unknown as { max_model_len: number | null };
    assert.is(props.default_generation_settings.n_ctx, max_model_len, id);
  }
});

test("Anthropic's client does, too", async ({ url }) => {
  const client = anthropicAt(url);
  const ids: string[] = [];
  for await (const { id } of client.models.list({ limit: 2 })) ids.push(id);
  assert.equal([...ids].sort(), [...ALL].sort());
  for (const id of ids) {
    const model = await client.models.retrieve(id);
    assert.is(model.id, id);
    const answer = await client.messages.create({ model: id, messages, max_tokens: 2 });
    assert.ok(answer.stop_reason, id);
    if (id === 'careful' || id.startsWith('farm')) assert.is(model.capabilities, null, id);
  }
  await client.messages.create({ model: 'tiny', messages, max_tokens: 1 });
  const tried = await client.models.retrieve('tiny');
  assert.equal(tried.capabilities?.image_input, { supported: false });
  assert.equal(tried.capabilities?.structured_outputs, { supported: true });
});

test("Ollama's client does, too", async ({ url }) => {
  const client = new Ollama({ host: url });
  const { models } = await client.list();
  const names = models.map(({ name }) => name);
  assert.equal([...names].sort(), ALL.map((id) => (id.includes(':') ? id : `${id}:latest`)).sort());
  const far = models.find(({ name }) => name.startsWith('farm')) as { remote_model?: string } | undefined;
  assert.is(far?.remote_model, 'org/big:free');
  for (const name of names) {
    const shown = await client.show({ model: name });
    assert.ok(shown.capabilities.includes('completion'), name);
    if (name === 'short:latest') {
      const info = shown.model_info as unknown as Record<string, unknown>;
      assert.is(info[`${String(info['general.architecture'])}.context_length`], 128);
    }
    assert.is((await client.generate({ model: name, prompt: '' })).done_reason, 'load', name);
    const answer = await client.chat({ model: name, messages, options: { num_predict: 2 } });
    assert.ok(answer.done, name);
  }
});

test.run();
