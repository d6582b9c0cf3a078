/** JSON Schema as a grammar: every text of a grammar is valid, however the keywords of the schema meet. */
import Ajv from 'ajv';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { schemaGrammar } from '../../src/backends/local/schema/schema-grammar.ts';
import { SvcError } from '../../src/protocol/errors.ts';
import { textsOf } from '../support/grammar-texts.ts';
import { inDraft7, random, randomCombination } from './random-schema.ts';

/** As in draft 2020-12, what stands beside a `$ref` holds, too, and `format` is an annotation. */
const ajv = new Ajv({ extendRefs: true, format: false, logger: false });
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
    assert.ok(assertValid(schema, 40).length > 30, JSON.stringify(schema));
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

/** Patterns that zod 4 writes. */
const EMAIL =
  "^(?:[A-Za-z0-9_'+\\-]+\\.)*[A-Za-z0-9_'+\\-]*[A-Za-z0-9_+-]@(?:[A-Za-z0-9][A-Za-z0-9\\-]*\\.)+[A-Za-z]{2,}$";
const UUID = '^([0-9a-fA-F]{8}-[0-9a-fA-F]{4}-4[0-9a-fA-F]{3}-[89abAB][0-9a-fA-F]{3}-[0-9a-fA-F]{12})$';
const DAY =
  '(?:(?:\\d\\d[2468][048]|\\d\\d[13579][26]|\\d\\d0[48]|[02468][048]00|[13579][26]00)-02-29|\\d{4}-(?:(?:0[13578]|' +
  '1[02])-(?:0[1-9]|[12]\\d|3[01])|(?:0[469]|11)-(?:0[1-9]|[12]\\d|30)|(?:02)-(?:0[1-9]|1\\d|2[0-8])))';
const CLOCK = 'T(?:(?:[01]\\d|2[0-3]):[0-5]\\d:[0-5]\\d(?:\\.\\d+)?(?:Z))';

test('strings as zod and pydantic write them are enforced', () => {
  for (const schema of [
    { format: 'email', pattern: EMAIL },
    { format: 'email', pattern: EMAIL, minLength: 5 },
    { format: 'uuid', pattern: UUID },
    { format: 'date', pattern: `^${DAY}$` },
    { format: 'date-time', pattern: `^${DAY}${CLOCK}$` },
    { format: 'cuid2', pattern: '^[0-9a-z]+$' },
    { format: 'uri', minLength: 1 },
    { format: 'uri', minLength: 1, maxLength: 2083 },
    { format: 'uuid4' },
    { format: 'duration' },
    { format: 'ipv6' },
    { format: 'password', minLength: 8, maxLength: 16 },
    { pattern: '^[A-Z]{3}$', minLength: 3, maxLength: 3 },
    { pattern: '^["<\\n]{2}$', maxLength: 2 },
    { pattern: '^[a-z-]+$', minLength: 1 },
    { pattern: '^(a*){0}b(|c)$', minLength: 1, maxLength: 2 },
  ])
    assert.ok(assertValid({ type: 'string', ...schema }, 40).length > 20, JSON.stringify(schema));
});

test('the names of a record are enforced', () => {
  const $defs = { Colour: { enum: ['red', 'blue'], title: 'Colour', type: 'string' } };
  const record = { type: 'object', additionalProperties: { type: 'integer', maximum: 9, minimum: 0 } };
  const names = (schema: object): Set<string> =>
    new Set(assertValid(schema, 60).flatMap((text) => Object.keys(JSON.parse(text) as object)));
  assert.ok(names({ ...record, propertyNames: { type: 'string' } }).size > 9);
  assert.ok(names({ ...record, propertyNames: { type: 'string', minLength: 1 } }).size > 9);
  assert.ok(names({ ...record, propertyNames: { type: 'string', pattern: '^-?\\d+$' } }).size > 9);
  const colours = { ...record, propertyNames: { $ref: '#/$defs/Colour' }, $defs };
  assert.equal([...names(colours)].sort(), ['blue', 'red']);
  const needed = assertValid({ ...colours, required: ['blue', 'red'] }, 10);
  assert.ok(needed.every((text) => /^\{"blue": \d, "red": \d\}$|^\{"red": \d, "blue": \d\}$/.test(text)));
  const beside = { ...colours, properties: { red: { const: 1 }, green: { const: 2 } } };
  assert.equal([...names(beside)].sort(), ['blue', 'red']);
  assert.equal([...names({ ...beside, additionalProperties: false })], ['red']);
});

test.run();
