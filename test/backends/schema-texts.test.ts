/** JSON Schema as a grammar: every text of a grammar is valid, however the keywords of the schema meet. */
import Ajv from 'ajv';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { schemaGrammar } from '../../src/backends/local/schema/schema-grammar.ts';
import { SvcError } from '../../src/protocol/errors.ts';
import { textsOf } from '../support/grammar-texts.ts';
import { inDraft7, random, randomCombination } from './random-schema.ts';

/** As in draft 2020-12, what stands beside a `$ref` holds, too. */
const ajv = new Ajv({ extendRefs: true, logger: false });
const next = random(11);

/** Asserts that random texts of the schema's grammar are valid. Returns them. */
function assertValid(schema: object, count: number): string[] {
  const write = textsOf(schemaGrammar(schema, 'schema'), next);
  const validate = ajv.compile(inDraft7(schema) as object);
  const texts = Array.from({ length: count }, write).filter((text) => text !== null);
  for (const text of texts)
    assert.ok(validate(JSON.parse(text)), `${JSON.stringify(schema)}\n${text}\n${ajv.errorsText(validate.errors)}`);
  return texts;
}

test('random schemas: all texts are valid', () => {
  let enforced = 0;
  for (let count = 0; count < 600; count++) {
    const schema = randomCombination(next);
    try {
      assertValid(schema, 8);
      enforced += 1;
    } catch (error) {
      // A schema that cannot be enforced is refused.
      if (!(error instanceof SvcError) || error.code !== 'INVALID_REQUEST') throw error;
    }
  }
  assert.ok(enforced > 200, `${String(enforced)} of 600 were enforced`);
});

test('keywords beside a $ref, of it and of those that it points to, are enforced', () => {
  const B = { type: 'string' };
  const inX = { type: 'object', properties: { x: { $ref: '#/$defs/A' } }, required: ['x'] };
  for (const schema of [
    { ...inX, $defs: { A: { $ref: '#/$defs/B', maxLength: 3 }, B } },
    { ...inX, $defs: { A: { $ref: '#/$defs/B', enum: ['a'] }, B } },
    { allOf: [{ $ref: '#/$defs/B', maxLength: 3 }, B], $defs: { B } },
    { type: 'object', anyOf: [{ $ref: '#/$defs/B', required: ['x'] }], $defs: { B: { type: 'object' } } },
    { $ref: '#/$defs/B', maxLength: 3, $defs: { B } },
    { $ref: '#/$defs/A', minLength: 2, $defs: { A: { $ref: '#/$defs/B', maxLength: 3 }, B } },
    { $ref: '#/$defs/A', maxLength: 3, $defs: { A: { anyOf: [{ type: 'null' }, B] } } },
    { $ref: '#/$defs/A', maxLength: 3, $defs: { A: true } },
  ])
    assert.is(assertValid(schema, 40).length, 40);
});

test('a reference is told from the same one with other keywords, also where it is recursive', () => {
  const schema = {
    $ref: '#/$defs/list',
    required: ['id'],
    $defs: {
      list: {
        type: 'object',
        properties: { id: { $ref: '#/$defs/id', maxLength: 2 }, more: { $ref: '#/$defs/list', title: 'the rest' } },
        additionalProperties: false,
      },
      id: { type: 'string', description: 'of the list' },
    },
  };
  const texts = assertValid(schema, 60);
  assert.ok(texts.some((text) => text.includes('"more": {}')));
  assert.not(texts.includes('{}'));
});

test.run();
