/** The names by which Ollama's clients call a pulled model: the same for every route. */
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import type { Services } from '../../../src/daemon/services.ts';
import { ask } from '../ask.ts';
import { startScripted, TINY, type ScriptedListener } from '../scripted.ts';

const HUB = 'org/repo:Q4_K_M';
const IDS = [HUB, 'llama:8b', 'two:1b', 'two:2b', 'three:1b', 'three:latest'];

let listener: ScriptedListener;
test.before(async () => {
  listener = await startScripted();
  const services = listener.services as { models: Services['models'] };
  services.models = () => Promise.resolve(IDS.map((id) => ({ ...TINY, id, aliases: [], default: false })));
  listener.world.key = 'deploy';
});
test.after(async () => await listener.stop());

const FOUND = [
  ['hf.co/org/repo:Q4_K_M', HUB],
  ['HF.co/Org/Repo:q4_k_m', HUB],
  ['huggingface.co/org/repo', HUB],
  ['hf:org/repo:latest', HUB],
  ['org/repo', HUB],
  ['llama', 'llama:8b'],
  ['three', 'three:latest'],
] as const;

test('a model is described, copied, unloaded and deleted by the name that it was pulled by, or without its tag', async () => {
  const done: string[] = [];
  listener.world.shelf.copy = async ({ id }) => void done.push(`copy ${id}`);
  listener.world.shelf.remove = async ({ id }) => void done.push(`remove ${id}`);
  for (const [model, id] of FOUND) {
    const shown = await ask(listener, '/api/show', { body: { model } });
    assert.equal([shown.status, shown.json().modelfile], [200, `FROM ${id}`], model);
    await ask(listener, '/api/generate', { body: { model, keep_alive: 0 } });
    await ask(listener, '/api/copy', { body: { source: model, destination: 'mine' } });
    await ask(listener, '/api/delete', { method: 'DELETE', body: { model } });
    assert.equal([listener.world.unloaded.pop(), done.splice(0)], [id, [`copy ${id}`, `remove ${id}`]], model);
  }
});

test('a name without its tag is no name if several models have it', async () => {
  for (const model of ['two', 'hf.co/two:latest', 'lla'])
    assert.is((await ask(listener, '/api/show', { body: { model } })).status, 404, model);
});

test.run();
