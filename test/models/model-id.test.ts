/** Model ids: for any file name the id is short, plain and unused. */
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { newId } from '../../src/models/store/lookup.ts';
import { checkModelId, modelIdFor } from '../../src/models/store/model-id.ts';
import type { Registry } from '../../src/models/store/registry.ts';
import { rejection } from '../support/errors.ts';

const none: ReadonlySet<string> = new Set();
const NO_MODELS: Registry = { version: 1, default: null, models: [], damaged: [], unreferenced: {} };

test('the id is the file name, reduced to characters that are easy to type', () => {
  assert.is(modelIdFor('/models/Qwen2.5-0.5B-Instruct-Q4_0.gguf', none), 'Qwen2.5-0.5B-Instruct-Q4_0');
  assert.is(modelIdFor('my model (final).gguf', none), 'my-model-final');
  assert.is(modelIdFor('modèle.gguf', none), 'modele');
  assert.is(modelIdFor('模型.gguf', none), 'model');
  assert.is(modelIdFor('.gguf', none), 'gguf');
  assert.is(modelIdFor('...', none), 'model');
  assert.is(modelIdFor('builtin.gguf', none), 'model-builtin');
});

test('an id in use, in any case, gets a number', () => {
  assert.is(modelIdFor('a.gguf', new Set(['a'])), 'a-2');
  assert.is(modelIdFor('A.gguf', new Set(['a', 'a-2'])), 'A-3');
});

test('a given name is used unchanged or refused', async () => {
  checkModelId('Qwen2.5-0.5B_q4');
  for (const name of [
    '',
    '.',
    '..',
    'a/b',
    'a\\b',
    '-a',
    'a.',
    'a b',
    'a:b',
    'a\0',
    'ü',
    'x'.repeat(129),
    '%2e%2e',
    '~',
  ]) {
    await rejection(() => checkModelId(name), 'INVALID_REQUEST', /cannot be the name/);
  }
  await rejection(() => checkModelId('Builtin'), 'INVALID_REQUEST', /built-in/);
  await rejection(() => checkModelId('Default'), 'INVALID_REQUEST', /means the default model/);
  assert.is(newId(undefined, 'default.gguf', NO_MODELS, []), 'default-2');
});

test('an id made from any name is also valid as a given name', () => {
  const alphabet = [
    '..',
    '/',
    '\\',
    ':',
    '\0',
    '\n',
    ' ',
    '%2e',
    'a',
    'Z',
    '9',
    '-',
    '_',
    '.',
    'é',
    '漢',
    '\u202e',
    'CON',
    '$(x)',
    'builtin',
    '~',
  ];
  let state = 7;
  const random = (below: number): number => (
    (state = (Math.imul(state, 1_103_515_245) + 12_345) >>> 0),
    (state >>> 8) % below
  );
  for (let round = 0; round < 20_000; round += 1) {
    const name = Array.from(
      { length: 1 + random(random(10) === 0 ? 300 : 8) },
      () => alphabet[random(alphabet.length)],
    ).join('');
    checkModelId(modelIdFor(name, none));
  }
});

test.run();
