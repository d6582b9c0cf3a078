/** How a tool's arguments may be written in formats that write each apart, and in Gemma 4's notation. */
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { argumentGrammars } from '../../src/backends/local/schema/arguments.ts';
import type { NativeArgument } from '../../src/engine/addon.ts';
import { LIMITS } from '../../src/protocol/limits.ts';
import { readerOf } from '../support/grammar-texts.ts';

const grammars = (parameters: Record<string, unknown>, mustFollow = false) =>
  argumentGrammars(parameters, 'tools[0].parameters', 'a', { left: LIMITS.toolsWork }, mustFollow);

/** The one argument, its rules by what they say. */
function only(schema: unknown, more: Record<string, unknown> = {}, mustFollow = false) {
  const { grammar, arguments: list = [] } = grammars({ properties: { x: schema }, ...more }, mustFollow);
  assert.is(list.length, 1);
  const [{ json, text, other, ...rest }] = list as [NativeArgument];
  const rules = new Map(grammar.split('\n').map((line) => line.split(' ::= ') as [name: string, expression: string]));
  const expressionOf = (rule: string): string | undefined => {
    const expression = rules.get(rule);
    return expression !== undefined && rules.has(expression) ? expressionOf(expression) : expression;
  };
  return { ...rest, text: expressionOf(text), other: expressionOf(other), hasJson: rules.has(json) };
}

test('an argument that is any text is written bare', () => {
  assert.equal(only({ type: 'string', description: 'a city' }), {
    name: 'x',
    required: false,
    any_text: true,
    text: undefined,
    other: undefined,
    text_may_be_json: true,
    scalar: false,
    hasJson: true,
  });
});

test('bare texts of a schema have no tag within them', () => {
  assert.is(only({ enum: ['one', 'a<b', 'two'] }).text, '"one" | "two"');
  assert.is(only({ enum: ['a<b'] }).text, undefined);
  const { text = '', any_text } = only({ type: 'string', pattern: '^[;-=]+$' });
  assert.not(any_text);
  assert.match(text, /\[;=\]\+/);
  assert.is(only({ type: 'string', pattern: '^<$' }).text, undefined);
});

test('a length limit keeps no tag out of a text, unless the call must follow its schema', () => {
  const command = { type: 'string', minLength: 1, maxLength: 9000 };
  assert.ok(only(command).any_text);
  const { any_text, text = '' } = only(command, {}, true);
  assert.not(any_text);
  assert.match(text, /\{1,9000\}/);
  assert.ok(only({ type: 'string', minLength: 0 }, {}, true).any_text);
  for (const mustFollow of [false, true]) {
    assert.ok(only({ type: 'string', format: 'markdown' }, {}, mustFollow).any_text);
    assert.not(only({ type: 'string', format: 'uri' }, {}, mustFollow).any_text);
  }
  const tagged = (mustFollow: boolean) => grammars({ properties: { x: command } }, mustFollow).tagged_grammar;
  const call = '{x:<|"|>cat <<EOF<|"|>}';
  assert.ok(readerOf(tagged(false))(call));
  assert.not(readerOf(tagged(true))(call));
  assert.ok(readerOf(tagged(true))('{x:<|"|>ls<|"|>}'));
});

test('text that may be something else is told from it only where every value is valid', () => {
  assert.ok(only({ type: ['string', 'null'] }).text_may_be_json);
  assert.ok(only({ anyOf: [{ type: 'string' }, { type: 'boolean' }] }).text_may_be_json);
  assert.ok(only({}).text_may_be_json);
  assert.not(only({ type: ['string', 'integer'] }).text_may_be_json);
  assert.not(only({ anyOf: [{ type: 'string' }, { type: 'number', minimum: 1 }] }).text_may_be_json);
  assert.not(only({ enum: ['1', 1] }).text_may_be_json);
});

test('values other than strings are JSON', () => {
  assert.is(only({ type: ['string', 'null'] }).other, '"null"');
  assert.is(only({ const: 5 }).other, '"5"');
  assert.ok(only({ type: 'integer' }).scalar);
  assert.not(only({ type: 'array' }).scalar);
});

test('what is required, and references, are followed', () => {
  const reference = only({ $ref: '#/$defs/city' }, { required: ['x'], $defs: { city: { enum: ['Ulm'] } } });
  assert.ok(reference.required);
  assert.is(reference.text, '"Ulm"');
});

test('arguments that are no list of names cannot be written apart', () => {
  assert.is(grammars({ anyOf: [{ properties: { a: {} } }, { properties: { b: {} } }] }).arguments, undefined);
  assert.equal(grammars({}).arguments, []);
});

test('in the notation of Gemma 4, keys and texts have no quotes of JSON', () => {
  const { tagged_grammar } = grammars({
    properties: { city: { type: 'string', pattern: '^U' }, tags: { type: 'array', items: { enum: ['a', 'b'] } } },
    required: ['city'],
  });
  assert.match(tagged_grammar, /"city:"/);
  assert.match(tagged_grammar, /"<\|\\"\|>" a-tagged-r\d+|"<\|\\"\|>" "a" "<\|\\"\|>"/);
  assert.not.match(tagged_grammar, /"\\"city/);
  assert.is(grammars({ properties: { 'a:b': {} } }).tagged_grammar, '');
});

test.run();
