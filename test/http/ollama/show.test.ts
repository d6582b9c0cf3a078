/** `POST /api/show`: what editors read there before a model was loaded once, and what Ollama adds to the file. */
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { NO_FACTS, type ModelDescription } from '../../../src/protocol/ollama/show.ts';
import type { ModelRecord } from '../../../src/protocol/records.ts';
import type { Services } from '../../../src/daemon/services.ts';
import { ask } from '../ask.ts';
import { LOCAL, startScripted, TINY, type ScriptedListener } from '../scripted.ts';

let listener: ScriptedListener;
test.before(async () => {
  listener = await startScripted();
});
test.after(async () => await listener.stop());

const UNTRIED: ModelRecord = { ...TINY, capabilities: ['chat', 'completion'], capabilities_tried: false };

async function shown(model: string, record: ModelRecord, facts: Partial<ModelDescription>): Promise<any> {
  const services = listener.services as { models: Services['models'] };
  services.models = () => Promise.resolve([record]);
  listener.world.shelf.describe = () => Promise.resolve({ ...NO_FACTS, ...facts });
  return (await ask(listener, '/api/show', { body: { model } })).json();
}

test('before the first load the files say what the model is able to do', async () => {
  const capabilitiesOf = async (facts: Partial<ModelDescription>, record = UNTRIED): Promise<string[]> =>
    (await shown('tiny', record, facts)).capabilities;
  const template = '{% if tools %}…{% endif %}<think>';
  assert.equal(await capabilitiesOf({ template }), ['completion', 'tools', 'thinking']);
  assert.equal(await capabilitiesOf({ template: '{{ messages }}' }), ['completion']);
  const metadata = { 'tokenizer.chat_template.tool_use': 'x' };
  assert.equal(await capabilitiesOf({ template: '{{ messages }}', metadata }), ['completion', 'tools']);
  assert.equal(await capabilitiesOf({ projector: { 'clip.has_vision_encoder': true } }), ['completion', 'vision']);
  assert.equal(await capabilitiesOf({ projector: { 'clip.has_audio_encoder': true } }), ['completion', 'audio']);
  assert.equal(await capabilitiesOf({ template }, { ...UNTRIED, capabilities: ['embedding'] }), ['embedding']);
  assert.equal(await capabilitiesOf({ template }, { ...UNTRIED, capabilities_tried: true }), ['completion']);
});

test('a vocabulary with tokens for a gap is the capability insert', async () => {
  const { capabilities } = await shown('tiny', { ...UNTRIED, capabilities_tried: true }, { fillsGaps: true });
  assert.equal(capabilities, ['completion', 'insert']);
});

test('the number of parameters, the projector, and the requested name', async () => {
  const metadata = { 'general.basename': 'Qwen3', 'general.architecture': 'qwen3' };
  const projector = { 'clip.has_vision_encoder': true, 'clip.projector_type': 'mlp' };
  const { model_info, projector_info } = await shown(
    'small:latest',
    { ...TINY, parameters: 600_000_000 },
    { metadata, projector },
  );
  assert.equal(model_info, {
    'general.architecture': 'qwen3',
    'general.basename': 'small:latest',
    'general.parameter_count': 600_000_000,
    'qwen3.context_length': 4096,
  });
  assert.equal(projector_info, projector);
});

test("a provider's model has the provider's name for it", async () => {
  const services = listener.services as { providers: Services['providers'] };
  services.providers = () => [{ ...LOCAL, name: 'cloud', kind: 'openai', default_model: 'big' }];
  const { remote_model, capabilities } = await shown('cloud/big', TINY, {});
  assert.equal([remote_model, capabilities], ['big', ['completion']]);
});

test.run();
