/** JSON Schema as a grammar: the grammar of a range allows the numbers within it, and no others. */
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { schemaGrammar } from '../../src/backends/local/schema/schema-grammar.ts';
import { readerOf } from '../support/grammar-texts.ts';
import { random } from './random-schema.ts';

type Bounds = Readonly<Partial<Record<'minimum' | 'maximum' | 'exclusiveMinimum' | 'exclusiveMaximum', number>>>;

function assertNumbers(schema: object, inside: readonly string[], outside: readonly string[]): void {
  const isAllowed = readerOf(schemaGrammar(schema, 'schema'));
  assert.equal(inside.filter(isAllowed), inside, JSON.stringify(schema));
  assert.equal(outside.filter(isAllowed), [], JSON.stringify(schema));
}

/** Digits of a decimal as an integer with `decimals` digits after the point. */
function scaled(text: string, decimals: number): bigint {
  const [whole = '', fraction = ''] = text.split('.');
  return BigInt(whole + fraction.padEnd(decimals, '0'));
}

function isWithin(text: string, bounds: Bounds): boolean {
  const value = scaled(text, 20);
  const compare = (bound: number | undefined, fits: (limit: bigint) => boolean): boolean =>
    bound === undefined || fits(scaled(String(bound), 20));
  return (
    compare(bounds.minimum, (limit) => value >= limit) &&
    compare(bounds.maximum, (limit) => value <= limit) &&
    compare(bounds.exclusiveMinimum, (limit) => value > limit) &&
    compare(bounds.exclusiveMaximum, (limit) => value < limit)
  );
}

test('numbers that users meet', () => {
  const number = (bounds: Bounds): object => ({ type: 'number', ...bounds });
  const small = ['0.5', '0.50', '0.99', '0.005', '1e-5', '3.2E-04', '1', '1.0'];
  assertNumbers(
    number({ exclusiveMinimum: 0 }),
    [...small, '1.5', '2', '123456.75', '6.02e23'],
    ['0', '0.0', '-1', '0e5'],
  );
  assertNumbers(number({ exclusiveMinimum: 0, maximum: 1 }), small, ['0', '0.00', '1.01', '2', '-0.5', '1e5', '5e0']);
  assertNumbers(number({ exclusiveMinimum: 0, maximum: 10_000 }), [...small, '9999.99', '10000'], ['0', '10000.01']);
  assertNumbers(number({ minimum: 0.01 }), ['0.01', '0.10', '0.99', '1.5', '0.010000001'], ['0', '0.009', '0.0', '-1']);
  assertNumbers(
    number({ maximum: 99.99 }),
    ['99.5', '99.99', '99.990', '98.5', '-7.25', '-1e9'],
    ['99.991', '100', '99.9901'],
  );
  assertNumbers(
    number({ minimum: -90, maximum: 90 }),
    ['52.520008', '-89.999', '90.0', '0', '-0.5'],
    ['90.1', '-90.01', '91'],
  );
  assertNumbers(
    number({ exclusiveMaximum: 0 }),
    ['-0.5', '-1.5', '-0.001', '-1e-3', '-1e3'],
    ['0', '-0', '-0.0', '0.5'],
  );
  assertNumbers(
    number({ minimum: 0.2, maximum: 0.8 }),
    ['0.2', '0.25', '0.8', '0.800'],
    ['0.1', '0.19', '0.81', '0', '1'],
  );
  assertNumbers(number({}), ['0.30000000000000004', '123456789012345678', '-1.5e-7'], ['01', '.5', '1.']);
  // Rounded to a double it would be 1.
  assertNumbers(number({ exclusiveMaximum: 1 }), ['0.999999999999'], ['0.99999999999999999', '1', '1.0']);
  assertNumbers(number({ exclusiveMaximum: 100 }), ['99.999999999999'], ['99.9999999999999999', '100']);
});

test('a range without numbers is refused', () => {
  for (const bound of [5, 0.5, 0, -0.5, -0.25, -5, 12.34]) {
    for (const [low, high] of [
      [{ minimum: bound }, { exclusiveMaximum: bound }],
      [{ exclusiveMinimum: bound }, { maximum: bound }],
      [{ exclusiveMinimum: bound }, { exclusiveMaximum: bound }],
      [{ minimum: bound + 0.25 }, { maximum: bound }],
    ])
      assert.throws(
        () => schemaGrammar({ type: 'number', ...low, ...high }, 'schema'),
        /allows no number/,
        String(bound),
      );
    const only = readerOf(schemaGrammar({ type: 'number', minimum: bound, maximum: bound }, 'schema'));
    assert.ok(only(String(bound)));
    assert.not(only(`${String(bound)}1`));
  }
});

test('integers have as many digits as 64 bits', () => {
  const [snowflake, most] = ['123456789012345678', String(2n ** 64n - 1n)];
  assertNumbers({ type: 'integer' }, [snowflake, most, `-${snowflake}`, '0', '-0'], ['1.5', '01', '1e5']);
  assertNumbers({ type: 'integer', minimum: 1 }, [snowflake, most, '1'], ['0', '-1']);
  assertNumbers({ type: 'integer', maximum: -1 }, [`-${snowflake}`, '-1'], ['0', '1', '-0']);
  const safe = Number.MAX_SAFE_INTEGER;
  const largest = String(safe);
  assertNumbers({ type: 'integer', minimum: -safe, maximum: safe }, [largest, `-${largest}`], ['9007199254740992']);
  assertNumbers({ type: 'integer', exclusiveMinimum: 1.5, exclusiveMaximum: 4 }, ['2', '3'], ['1', '4', '02']);
});

test('random bounds: every number within is allowed, none outside', () => {
  const next = random(3);
  const decimal = (): string => {
    const whole = Math.floor((next() - 0.4) * 10 ** Math.floor(next() * 5));
    const digits = String(Math.floor(next() * 1e9)).slice(0, Math.floor(next() * 7));
    return digits === '' ? String(whole) : `${String(whole)}.${digits}`;
  };
  let within = 0;
  for (let count = 0; count < 400; count++) {
    const [low = 0, high = 0] = [Number(decimal()), Number(decimal())].sort((a, b) => a - b);
    const bounds: Bounds = {
      ...(next() < 0.8 ? { [next() < 0.5 ? 'minimum' : 'exclusiveMinimum']: low } : {}),
      ...(next() < 0.8 ? { [next() < 0.5 ? 'maximum' : 'exclusiveMaximum']: high } : {}),
    };
    if (low === high && Object.keys(bounds).length === 2) continue;
    const isAllowed = readerOf(schemaGrammar({ type: 'number', ...bounds }, 'schema'));
    // Numbers at, beside and between the bounds, and others.
    const beside = [low, high].flatMap((bound) => [
      String(bound),
      `${String(bound)}${String(bound).includes('.') ? '' : '.'}01`,
    ]);
    const between = Array.from({ length: 10 }, () => (low + next() * (high - low)).toFixed(Math.floor(next() * 9)));
    for (const text of [...beside, ...between, ...Array.from({ length: 10 }, decimal)]) {
      if (/^-0(\.0*)?$/.test(text)) continue;
      const isInside = isWithin(text, bounds);
      if (isInside) within += 1;
      assert.is(isAllowed(text), isInside, `${text} ${JSON.stringify(bounds)}`);
    }
  }
  assert.ok(within > 2000, String(within));
});

test('random bounds of integers: every one within is allowed, none outside', () => {
  const next = random(4);
  for (let count = 0; count < 200; count++) {
    const integer = (): number => Math.round((next() - 0.4) * 10 ** Math.floor(next() * 16));
    const [low = 0, high = 0] = [integer(), integer()].sort((a, b) => a - b);
    const isAllowed = readerOf(schemaGrammar({ type: 'integer', minimum: low, maximum: high }, 'schema'));
    for (const value of [low, high, low - 1, high + 1, ...Array.from({ length: 20 }, integer)])
      assert.is(
        isAllowed(String(value === 0 ? 0 : value)),
        low <= value && value <= high,
        `${String(value)} ${String([low, high])}`,
      );
  }
});

test('grammars of ranges are small', () => {
  const sizes: readonly (readonly [schema: Bounds & { type?: string }, most: number])[] = [
    [{ exclusiveMinimum: 0 }, 300],
    [{ minimum: 0, maximum: 1 }, 300],
    [{ minimum: -90, maximum: 90 }, 400],
    [{ minimum: 0.01, maximum: 999_999.99 }, 600],
    [{ type: 'integer', minimum: 1, maximum: 65_535 }, 300],
  ];
  for (const [schema, most] of sizes) {
    const { length } = schemaGrammar({ type: 'number', ...schema }, 'schema');
    assert.ok(length <= most, `${JSON.stringify(schema)}: ${String(length)}`);
  }
});

test.run();
