/** The model catalogue is valid: its schema, names and hub references. */
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { checkModelId } from '../../../src/models/store/model-id.ts';
import {
  catalogue,
  estimatedBytes,
  findInCatalogue,
  searchCatalogue,
  unknownShortName,
} from '../../../src/models/pull/catalogue.ts';
import { parseReference } from '../../../src/models/pull/reference.ts';

test('it has at least thirty models from 0.3 to 30 billion parameters, with unique names', () => {
  const { models, date } = catalogue();
  assert.ok(models.length >= 30);
  assert.ok(Date.parse(date) > Date.parse('2025-01-01'));
  assert.is(new Set(models.map(({ name }) => name)).size, models.length);
  assert.is(new Set(models.map(({ repo }) => repo)).size, models.length);
  const sizes = models.map((model) => model.parameters_billions);
  assert.ok(Math.min(...sizes) < 0.5 && Math.max(...sizes) > 20);
  for (const model of models) {
    checkModelId(model.name);
    assert.is(parseReference(model.name).kind, 'short', model.name);
    assert.is(parseReference(`hf:${model.repo}:${model.default_quantization}`).kind, 'hub', model.name);
    const bytes = estimatedBytes(model, model.default_quantization);
    assert.ok(bytes > 1e8 && bytes < 3e10, `${model.name}: ${bytes}`);
  }
});

test('entries are found by name in any case, and searched by every word', () => {
  assert.is(findInCatalogue('QWEN3-4B')?.name, 'qwen3-4b');
  assert.is(findInCatalogue('qwen3'), null);
  assert.ok(searchCatalogue('code').some(({ name }) => name === 'qwen2.5-coder-7b'));
  assert.ok(searchCatalogue('qwen reasoning tools').every(({ repo }) => repo.startsWith('Qwen/')));
  assert.is(searchCatalogue('').length, catalogue().models.length);
  assert.equal(searchCatalogue('no such words'), []);
  assert.is(unknownShortName('qwen3-4').hint, 'did you mean qwen3-4b?');
  assert.match(unknownShortName('zzzzzz').hint ?? '', /ollama:zzzzzz/);
});

test("a name with Ollama's tag means the entry of that size, never one of another size", () => {
  const hints: Record<string, string> = {
    'qwen3:8b': 'did you mean qwen3-8b or ollama:qwen3:8b?',
    'Llama3.2:3B': 'did you mean llama3.2-3b or ollama:Llama3.2:3B?',
    'gemma3:4b': 'did you mean gemma3-4b or ollama:gemma3:4b?',
    'qwen2.5-coder:7b': 'did you mean qwen2.5-coder-7b or ollama:qwen2.5-coder:7b?',
    'qwen3-4:q8_0': 'did you mean qwen3-4b or ollama:qwen3-4:q8_0?',
    'qwen3:32b': 'did you mean ollama:qwen3:32b?',
    'zzzzzz:latest': 'did you mean ollama:zzzzzz:latest?',
  };
  for (const [typed, hint] of Object.entries(hints)) assert.is(unknownShortName(typed).hint, hint);
  assert.is(unknownShortName('qwen3:8b').message, 'the catalogue has no model "qwen3:8b"');
  assert.match(unknownShortName('qwen3-9b').hint ?? '', /^see svc model search; .*ollama:qwen3-9b/);
});

test.run();
