/** JSON Schema as a grammar: a real model's output is valid, and schemas that cannot be enforced are rejected. */
import Ajv from 'ajv';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { toEngineRequest } from '../../src/backends/local/request.ts';
import { jsonGrammar, schemaGrammar } from '../../src/backends/local/schema/schema-grammar.ts';
import type { Format } from '../../src/protocol/generate.ts';
import { rejection } from '../support/errors.ts';
import { openEngine, type TestEngine } from '../support/native-engine.ts';
import { random, randomSchema } from './random-schema.ts';

const test = suite<{ engine: TestEngine }>('schema');
test.before(async (context) => {
  context.engine = await openEngine('tiny-llama', { max_sequences: 16, context_length: 8192 });
});
test.after(({ engine }) => engine.native.close());

let nextId = 1;

/** Returns the output of the model. Its weights are random, so it explores everything that the grammar allows. */
async function write(engine: TestEngine, format: Format, seed: number, max_tokens = 200) {
  const { grammar } = toEngineRequest({ messages: [], sampling: {}, stop: [], format });
  assert.ok(grammar !== undefined);
  const sampling = { temperature: 1.5, top_k: seed % 2 === 0 ? 0 : 40, top_p: 1, min_p: 0, seed };
  return engine.generate({ id: nextId++, prompt: 'JSON:', grammar, max_tokens, sampling });
}

const ajv = new Ajv({ unknownFormats: 'ignore', format: 'full' });
// JSON Schema's patterns have the `u` flag, those of this version of Ajv have not.
ajv.removeKeyword('pattern');
ajv.addKeyword('pattern', {
  type: 'string',
  validate: (pattern: string, text: string) => new RegExp(pattern, 'u').test(text),
});

async function assertValid(engine: TestEngine, schema: object, seeds: readonly number[]): Promise<number> {
  const validate = ajv.compile(schema);
  const answers = await Promise.all(
    seeds.map((seed) => write(engine, { type: 'json_schema', schema: schema as never }, seed)),
  );
  let whole = 0;
  for (const { text, finish } of answers) {
    if (finish.reason === 'length') continue;
    whole += 1;
    const isValid = validate(JSON.parse(text));
    assert.ok(isValid, `${JSON.stringify(schema)}\n${text}\n${ajv.errorsText(validate.errors)}`);
  }
  return whole;
}

test('32 random schemas: all output is valid', async ({ engine }) => {
  const next = random(7);
  const schemas = Array.from({ length: 32 }, () => randomSchema(next));
  let whole = 0;
  for (const schema of schemas) whole += await assertValid(engine, schema, [1, 2]);
  assert.ok(whole > 24, `${String(whole)} of 64 came to an end`);
});

test('schemas as users write them: all output is valid', async ({ engine }) => {
  const person = {
    $schema: 'http://json-schema.org/draft-07/schema#',
    title: 'Person',
    type: 'object',
    properties: {
      name: { type: 'string', description: 'as in the passport', maxLength: 30 },
      age: { type: 'integer', minimum: 0, maximum: 150 },
      score: { type: 'number', exclusiveMinimum: 0, maximum: 1 },
      address: { $ref: '#/definitions/address', description: 'where they live' },
      friends: { type: 'array', items: { $ref: '#/definitions/friend' }, maxItems: 3 },
    },
    required: ['name', 'age', 'score', 'address', 'friends'],
    additionalProperties: false,
    definitions: {
      address: { type: 'object', properties: { city: { enum: ['Köln', 'Paris'] } }, required: ['city'] },
      friend: {
        anyOf: [{ type: 'null' }, { type: 'object', properties: { friend: { $ref: '#/definitions/friend' } } }],
      },
    },
  };
  assert.ok((await assertValid(engine, person, [1, 2, 3, 4, 5, 6])) >= 5);
  const whole = await write(engine, { type: 'json_schema', schema: person }, 2);
  assert.match(
    whole.text,
    /^\{"name": ".*", "age": \d+, "score": \d(\.\d+)?([eE]-\d+)?, "address": \{"city": "(Köln|Paris)"\}/,
  );

  const alternatives = {
    type: 'object',
    properties: { a: { type: 'boolean' }, b: { type: 'boolean' } },
    anyOf: [{ required: ['a'] }, { required: ['b'] }],
  };
  await assertValid(engine, alternatives, [1, 2, 3, 4]);
  await assertValid(engine, { type: 'string', pattern: 'b+', maxLength: undefined }, [1, 3]);
  await assertValid(engine, { minimum: 0.2, maximum: 0.8, type: 'number' }, [1, 2, 3]);
});

test('json_object: the output is a JSON object', async ({ engine }) => {
  const answers = await Promise.all(
    [1, 2, 3, 4, 5, 6, 7, 8].map((seed) => write(engine, { type: 'json_object' }, seed)),
  );
  for (const { text, finish } of answers) {
    assert.ok(text.startsWith('{'));
    if (finish.reason === 'stop') assert.type(JSON.parse(text), 'object');
  }
});

test('output cut off by max_tokens has finish reason length; complete output ends with stop', async ({ engine }) => {
  const schema = {
    type: 'object',
    properties: { list: { type: 'array', items: { type: 'integer' }, minItems: 40 } },
    required: ['list'],
  };
  const cut = await write(engine, { type: 'json_schema', schema }, 1, 20);
  assert.is(cut.finish.reason, 'length');
  assert.is(cut.finish.usage.output_tokens, 20);
  const whole = await write(engine, { type: 'json_schema', schema: { const: 'done' } }, 1, 20);
  assert.equal([whole.text, whole.finish.reason], ['"done"', 'stop']);
});

test('text that the grammar forces takes fewer steps than tokens', async ({ engine }) => {
  const schema = {
    type: 'object',
    properties: { description_of_the_weather: { type: 'boolean' }, temperature_outside: { type: 'boolean' } },
    required: ['description_of_the_weather', 'temperature_outside'],
  };
  const before = engine.native.stats().steps.count;
  const { text, finish } = await write(engine, { type: 'json_schema', schema }, 4);
  assert.match(text, /^\{"description_of_the_weather": (true|false), "temperature_outside": (true|false)\}$/);
  const taken = engine.native.stats().steps.count - before;
  assert.ok(
    taken < finish.usage.output_tokens / 2,
    `${String(taken)} steps for ${String(finish.usage.output_tokens)} tokens`,
  );
});

// ---- rejected schemas ----------------------------------------------------------------------------

async function refusal(schema: unknown): Promise<{ param: string | undefined; message: string }> {
  return rejection(() => schemaGrammar(schema, 'schema'), 'INVALID_REQUEST');
}

const inObject = (property: object): object => ({ type: 'object', properties: { a: property } });

const integer = { type: 'integer' };
const listOf = (length: number): readonly number[] => Array.from({ length }, (_, index) => index);

const UNENFORCEABLE: readonly (readonly [schema: unknown, param: string])[] = [
  [inObject({ type: 'number', multipleOf: 0.5 }), 'schema.properties.a.multipleOf'],
  [inObject({ type: 'array', uniqueItems: true }), 'schema.properties.a.uniqueItems'],
  [inObject({ not: { type: 'string' } }), 'schema.properties.a.not'],
  [{ type: 'object', patternProperties: { '^x': {} } }, 'schema.patternProperties'],
  [{ ...inObject({}), additionalProperties: {}, propertyNames: { maxLength: 3 } }, 'schema.propertyNames'],
  [{ type: 'object', required: ['a'], propertyNames: { maxLength: 3 } }, 'schema.propertyNames'],
  [{ type: 'object', propertyNames: { type: 'integer' } }, 'schema.propertyNames'],
  [{ type: 'object', propertyNames: { not: {} } }, 'schema.propertyNames.not'],
  [{ type: 'object', minProperties: 2 }, 'schema.minProperties'],
  [{ type: 'object', maxProperties: 2 }, 'schema.maxProperties'],
  [{ if: {}, then: {} }, 'schema.if'],
  [{ type: 'array', contains: {} }, 'schema.contains'],
  [{ type: 'string', nullable: true }, 'schema.nullable'],
  [{ type: 'string', pattern: '^a*$', minLength: 1 }, 'schema.minLength'],
  [{ type: 'string', pattern: '^a+$', maxLength: 9 }, 'schema.maxLength'],
  [{ type: 'string', format: 'email', maxLength: 20 }, 'schema.maxLength'],
  [{ type: 'string', format: 'date', pattern: '^(?=2)' }, 'schema.pattern'],
  [{ type: 'string', maxLength: 1e9 }, 'schema.maxLength'],
  [{ type: 'integer', minimum: 1.2, maximum: 1.8 }, 'schema'],
  [{ $ref: 'https://example.com/schema' }, 'schema.$ref'],
  [{ $ref: '#' }, 'schema.$ref'],
  [{ anyOf: [{}, { $ref: 'any' }] }, 'schema.anyOf[1].$ref'],
  [{ $ref: '#/$defs/a', $defs: { a: { pattern: '^a' } }, pattern: 'a$' }, 'schema.$ref'],
  [{ $ref: '#/$defs/a', $defs: { a: { type: 'string' } }, not: {} }, 'schema.not'],
  [{ $ref: '#/$defs/a', $defs: { a: { $ref: '#/$defs/b', not: {} }, b: {} } }, 'schema.not'],
  [{ $ref: '#/$defs/a', $defs: { a: { $ref: '#/$defs/a', minLength: 1 } } }, 'schema.$ref'],
  [{ oneOf: [{ type: 'integer' }, { type: 'number' }] }, 'schema.oneOf'],
  [{ oneOf: [inObject({ const: 1 }), inObject({ const: 2 })] }, 'schema.oneOf'], // `a` is optional
  [{ allOf: [{ type: 'string' }, { type: 'integer' }] }, 'schema.allOf'],
  [{ allOf: [{ ...inObject({}), additionalProperties: false }, { properties: { b: {} } }] }, 'schema.allOf'],
  [{ type: 'array', items: integer, anyOf: [{ prefixItems: [{ type: 'string' }] }] }, 'schema.anyOf'],
  [{ type: 'array', allOf: [{ items: integer }, { prefixItems: [{ type: 'string' }] }] }, 'schema.allOf'],
  [{ type: 'array', allOf: [{ items: [integer] }, { prefixItems: [{ type: 'string' }] }] }, 'schema.allOf'],
  [{ additionalItems: false, prefixItems: [], allOf: [{ prefixItems: [integer] }] }, 'schema.allOf'],
  [{ type: 'string', const: 'a', pattern: '^a$' }, 'schema.pattern'],
  [{ enum: [{ a: 1 }], required: ['b'] }, 'schema.required'],
  [{ propertyNames: { enum: ['a'], not: {} } }, 'schema.propertyNames.not'],
  [{ propertyNames: false }, 'schema.propertyNames'],
  [{ $ref: '#name', $defs: { a: { $anchor: 'name' } } }, 'schema.$ref'],
  [{ minimum: 1e30, type: 'integer' }, 'schema'],
  [{ type: 'string', minLength: 60_000 }, 'schema.minLength'],
  [{ type: 'array', items: {}, maxItems: 100_000 }, 'schema.maxItems'],
  [{ pattern: 'a'.repeat(2000) }, 'schema.pattern'],
  [{ pattern: null }, 'schema.pattern'],
];

/** Refused even where keywords may be left out: the schema is invalid, or no value fits it. */
const INVALID: readonly (readonly [schema: unknown, param: string])[] = [
  [{ type: 'object', required: ['a'], propertyNames: { enum: ['b'] } }, 'schema.required'],
  [{ type: 'colour' }, 'schema.type'],
  [{ type: Array(8).fill('object') }, 'schema.type'],
  [{ type: 'string', minLength: 5, maxLength: 4 }, 'schema.minLength'],
  [{ type: 'string', maxLength: -1 }, 'schema.maxLength'],
  [{ type: 'integer', minimum: '1' }, 'schema.minimum'],
  [{ enum: [] }, 'schema'],
  [{ enum: ['a'], type: 'integer' }, 'schema'],
  [{ enum: ['a'], minLength: 2 }, 'schema'],
  [{ $ref: '#/$defs/missing' }, 'schema.$ref'],
  [{ anyOf: [] }, 'schema.anyOf'],
  [{ type: 'object', required: ['x'], additionalProperties: false }, 'schema.required'],
  [{ type: 'array', prefixItems: [{}], items: false, minItems: 2 }, 'schema.minItems'],
  [{ type: 'array', prefixItems: [{}], items: [{}] }, 'schema.items'],
  [false, 'schema'],
  ['string', 'schema'],
  [inObject('string' as never), 'schema.properties.a'],
  [{ allOf: [{}, 7] }, 'schema.allOf'],
  [{ enum: listOf(5000) }, 'schema.enum'],
];

test('a keyword that a grammar cannot enforce is reported with its place', async () => {
  for (const [schema, param] of [...UNENFORCEABLE, ...INVALID])
    assert.is((await refusal(schema)).param, param, JSON.stringify(schema));
});

test('a lenient compiler refuses only what is not a schema', async () => {
  for (const [schema] of UNENFORCEABLE) assert.match(schemaGrammar(schema, 'schema', true), 'root');
  for (const pattern of IRREGULAR) assert.match(schemaGrammar({ pattern }, 'schema', true), 'root');
  for (const [schema, param] of INVALID) {
    const { param: place } = await rejection(() => schemaGrammar(schema, 'schema', true), 'INVALID_REQUEST');
    assert.is(place, param, JSON.stringify(schema));
  }
});

test('a lenient compiler leaves out what it cannot enforce', () => {
  const lenient = (schema: object): string => schemaGrammar(schema, 'schema', true);
  const text = { type: 'string', minLength: 2, maxLength: 9 };
  const list = { type: 'array', items: { enum: ['a', 'b'] } };
  const cases: readonly [schema: object, as: object][] = [
    [{ ...text, pattern: '^(?!0)[0-9]+$', nullable: true, errorMessage: 'x' }, text],
    [{ ...text, pattern: '^a+$' }, text],
    [{ ...list, uniqueItems: true, contains: { const: 'a' } }, list],
    [
      { type: 'number', multipleOf: 0.01, minimum: 0 },
      { type: 'number', minimum: 0 },
    ],
    [{ not: {}, type: 'integer' }, { type: 'integer' }],
    [{ oneOf: [{ type: 'integer' }, { type: 'number' }] }, { anyOf: [{ type: 'integer' }, { type: 'number' }] }],
    [{ type: 'object', minProperties: 2 }, { type: 'object' }],
    [{ ...inObject(text), maxProperties: 0 }, inObject(text)],
    [
      { ...text, maxLength: 60_000 },
      { type: 'string', minLength: 2 },
    ],
    [
      { type: 'string', enum: ['a'], pattern: '^b' },
      { type: 'string', enum: ['a'] },
    ],
    [
      { ...text, $ref: 'https://example.com/schema' },
      { ...text, $ref: '#/properties/a/$defs/any', $defs: { any: true } },
    ],
    [
      {
        allOf: [
          { pattern: '^a', maxLength: 3 },
          { pattern: 'a$', minLength: 2 },
        ],
      },
      { pattern: '^a', maxLength: 3, minLength: 2 },
    ],
    [
      {
        allOf: ['a', 'b'].map((name) => ({ type: 'object', properties: { [name]: {} }, additionalProperties: false })),
      },
      { type: 'object', properties: { a: {}, b: {} } },
    ],
    [
      { type: 'string', format: 'date', pattern: '^(?=2)' },
      { type: 'string', format: 'date' },
    ],
  ];
  for (const [schema, as] of cases) assert.is(lenient(inObject(schema)), lenient(inObject(as)), JSON.stringify(schema));
  assert.throws(() => lenient({ type: 'colour' }), /schema.type must name JSON types/);
});

test('listed values are those that the other keywords allow', () => {
  const cases: readonly [schema: object, values: readonly unknown[]][] = [
    [{ type: 'string', enum: ['a', 'bb', '🎉🎉', 'ccc'], minLength: 2, maxLength: 2 }, ['bb', '🎉🎉']],
    [{ enum: ['a', 1, 5, 2.5, null], minimum: 2, exclusiveMaximum: 5 }, ['a', 2.5, null]],
    [{ enum: [1, 4, 6, 7], multipleOf: 2 }, [4, 6]],
    [{ enum: [[], [1], [1, 2]], minItems: 1, maxItems: 1 }, [[1]]],
    [{ enum: ['a', {}, { b: 1 }], minProperties: 1 }, ['a', { b: 1 }]],
    [{ const: 'a', minLength: 1, format: 'hostname', properties: {} }, ['a']],
  ];
  for (const [schema, values] of cases)
    assert.is(schemaGrammar(schema, 'schema'), schemaGrammar({ enum: values }, 'schema'), JSON.stringify(schema));
});

test('an explicit true allows more, as an empty schema does', () => {
  const cases: readonly ((any: unknown) => object)[] = [
    (any) => ({ ...inObject({ type: 'string' }), additionalProperties: any }),
    (any) => ({ type: 'object', required: ['a'], additionalProperties: any }),
    (any) => ({ type: 'array', prefixItems: [{ type: 'string' }], items: any }),
    (any) => ({ type: 'array', items: [{ type: 'string' }], additionalItems: any }),
  ];
  for (const schema of cases) {
    assert.is(schemaGrammar(schema(true), 'schema'), schemaGrammar(schema({}), 'schema'));
    assert.is.not(schemaGrammar(schema(true), 'schema'), schemaGrammar(schema(undefined), 'schema'));
  }
});

test('a format that is not known is an annotation', () => {
  for (const format of ['iri', 'entity_id', 'binary', 7])
    assert.is(schemaGrammar({ type: 'string', format }, 'schema'), schemaGrammar({ type: 'string' }, 'schema'));
});

const IRREGULAR = [
  '^(?=a)b$',
  '^(?<!a)b$',
  '(a)\\1',
  '\\bword\\b',
  '^\\p{L}$',
  'a^b',
  '(a',
  'a)',
  '*a',
  '[b-a]',
  '^\\u{110000}$',
  '^[\\ud800]$',
  '^\\x00$',
  'a{x}',
  '^[]$',
];

test('a pattern with look-around, back-references or word boundaries is rejected', async () => {
  for (const pattern of IRREGULAR)
    assert.is((await refusal({ type: 'string', pattern })).param, 'schema.pattern', pattern);
  assert.match((await refusal({ pattern: 'a'.repeat(2000) })).message, /at most 1024/);
  assert.match((await refusal({ pattern: '('.repeat(500) + 'a' + ')'.repeat(500) })).message, /deeper/);
});

test('names of properties have a limited length, and cost as much work as they have characters', async () => {
  for (const length of [1025, 60_000]) {
    const name = 'a'.repeat(length);
    const { param, message } = await refusal({ type: 'object', properties: { [name]: {} }, additionalProperties: {} });
    assert.is(param, `schema.properties.${'a'.repeat(64)}`);
    assert.match(message, /must have a name of at most 1024 characters/);
    assert.match((await refusal({ type: 'object', required: [name] })).message, /must have a name of at most 1024/);
  }
  const open = (name: string): object => ({ properties: { [name]: {} }, additionalProperties: {} });
  assert.match(schemaGrammar(open('a'.repeat(1024)), 'schema'), /a{1024}/);
  const [text, key] = ['\u00fc'.repeat(1000), '\u0007'.repeat(1000)];
  // Each is visited anew, because it is merged. The keys cannot be written, so that their rules are equal and few.
  const visits = (name: string): object => ({
    $defs: { open: open(name) },
    anyOf: Array.from({ length: 60 }, (_, index) => ({ $ref: '#/$defs/open', title: String(index) })),
    type: 'object',
  });
  assert.match((await refusal(visits(key))).message, /too complex/);
  assert.match((await refusal(visits(text))).message, /too complex/);
});

test('a schema that is too large or too deep is rejected', async () => {
  let deep: object = { type: 'string' };
  for (let i = 0; i < 2000; i++) deep = { type: 'array', items: deep };
  assert.match((await refusal(deep)).message, /nests deeper/);
  assert.match((await refusal({ description: 'x'.repeat(200_000) })).message, /bytes of JSON/);
  const wide = Object.fromEntries(Array.from({ length: 3000 }, (_, i) => [`p${String(i)}`, {}]));
  assert.match(
    (await refusal({ type: 'object', properties: wide, additionalProperties: { minimum: 3 } })).message,
    /too large/,
  );
  // Small, but exponentially large when all references are expanded.
  const $defs: Record<string, object> = { d0: { type: 'object' } };
  for (let i = 1; i < 24; i++) {
    const inner = { $ref: `#/$defs/d${String(i - 1)}` };
    $defs[`d${String(i)}`] = { type: 'object', properties: { a: inner, b: inner }, required: ['a', 'b'] };
  }
  const twice = [{ $ref: '#/$defs/d23' }, { allOf: [{ $ref: '#/$defs/d23' }], title: 'again' }];
  assert.match((await refusal({ $defs, oneOf: twice })).message, /too complex|cannot be enforced/);
  const both = [{ $ref: '#/$defs/d20' }, { $ref: '#/$defs/d21' }];
  assert.match((await refusal({ $defs, allOf: both })).message, /too complex/);
  assert.match((await refusal({ $defs, oneOf: both })).message, /too complex/);
  // Merging copies the properties so far, once for each part.
  const parts = (count: number): object[] =>
    Array.from({ length: count }, (_, i) => ({ properties: { [`p${String(i)}`]: {} } }));
  assert.ok(schemaGrammar({ type: 'object', allOf: parts(200) }, 'schema').length > 0);
  assert.match((await refusal({ type: 'object', allOf: parts(350) })).message, /too complex/);
  const many = { oneOf: Array.from({ length: 2000 }, (_, i) => ({ const: i })) };
  assert.match((await refusal(many)).message, /too complex/);
  // A reference may be longer than any schema in its place.
  const followed = (length: number): object => ({
    $defs: { ['a'.repeat(length)]: { type: 'string' }, short: { $ref: `#/$defs/${'%61'.repeat(length)}` } },
    allOf: Array.from({ length: 1000 }, () => ({ $ref: '#/$defs/short' })),
  });
  assert.ok(schemaGrammar(followed(8), 'schema').length > 0);
  assert.match((await refusal(followed(8000))).message, /too complex/);
  assert.match((await refusal({ enum: Array.from({ length: 5000 }, (_, i) => i) })).param ?? '', /enum/);
});

test('schemas that recurse without end are told apart, or rejected', async () => {
  const node = (kind: object, next: string): object => ({
    type: 'object',
    required: ['next', 'kind'],
    properties: { next: { $ref: `#/$defs/${next}` }, kind },
  });
  const oneOf = [{ $ref: '#/$defs/A' }, { $ref: '#/$defs/B' }];
  const apart = { $defs: { A: node({ const: 'a' }, 'A'), B: node({ const: 'b' }, 'B') }, oneOf };
  assert.match(schemaGrammar(apart, 'schema'), 'root');
  const alike = { $defs: { A: node({}, 'A'), B: node({}, 'B') }, oneOf };
  assert.is((await refusal(alike)).param, 'schema.oneOf');
});

test('a schema for which the stack is too small is rejected', async () => {
  let deep: object = {};
  for (let i = 0; i < 100_000; i++) deep = { items: deep };
  assert.match((await refusal(deep)).message, /nests too deep/);
});

test('the grammar for any JSON object is small and constant', () => {
  assert.ok(jsonGrammar().length < 7500);
  assert.is(jsonGrammar(), jsonGrammar());
});

/** Otherwise a model that likes brackets writes a call which no parser takes. */
test('a value without a schema nests only to a limit', () => {
  const free = { type: 'object', properties: { a: {}, b: { type: 'array' }, c: { type: 'object' } } };
  for (const grammar of [jsonGrammar(), schemaGrammar(free, 'schema'), schemaGrammar(true, 'schema')]) {
    const rules = [...grammar.matchAll(/^any-r(\d+) ::= (.*)$/gm)];
    assert.ok(rules.length > 32);
    for (const [, name, expression = ''] of rules) {
      for (const [, other] of expression.matchAll(/\bany-r(\d+)\b/g)) assert.ok(Number(other) < Number(name), grammar);
    }
    assert.not.match(grammar, /\bd\d+\b/);
  }
});

test.run();
