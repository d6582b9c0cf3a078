import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { JsonGauge } from '../../src/files/json-gauge.ts';

function measure(json: string, cuts: readonly number[] = []): number {
  const bytes = Buffer.from(json);
  const gauge = new JsonGauge();
  const bounds = [0, ...[...cuts].sort((a, b) => a - b), bytes.length];
  return Math.max(...bounds.slice(1).map((end, i) => gauge.measure(bytes.subarray(bounds[i], end))));
}

function depthOf(value: unknown): number {
  if (typeof value !== 'object' || value === null) return 0;
  return 1 + Math.max(0, ...Object.values(value).map(depthOf));
}

/** Seeded random generator, so that failures can be reproduced. */
function makeRandom(seed: number): (below: number) => number {
  let state = seed;
  return (below) => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return Math.floor((state / 2 ** 32) * below);
  };
}

test('depth and number of values of simple documents', () => {
  for (const [json, depth] of [
    ['1', 0],
    ['"[["', 0],
    ['[]', 1],
    ['{"a":[{}]}', 3],
    ['[[],[[]]]', 3],
  ] as const) {
    assert.is(measure(json), depth, json);
  }
});

test('the depth is right for any JSON, wherever the chunks are cut', () => {
  const random = makeRandom(1);
  const pieces = ['\\', '"', '[', '{', ']', '}', 'a', '\n', 'é', '🦙', '\\"', '\\\\'];
  const word = (): string => Array.from({ length: random(6) }, () => pieces[random(pieces.length)]).join('');
  const make = (room: number): unknown => {
    const kind = random(room > 0 ? 4 : 2);
    if (kind === 0) return random(1000);
    if (kind === 1) return word();
    if (kind === 2) return Array.from({ length: random(4) }, () => make(room - 1));
    return Object.fromEntries(Array.from({ length: random(4) }, () => [word(), make(room - 1)]));
  };
  for (let round = 0; round < 5000; round += 1) {
    const value = make(6);
    const json = JSON.stringify(value);
    const { length } = Buffer.from(json);
    const cuts = Array.from({ length: random(8) }, () => random(length + 1));
    assert.is(measure(json, cuts), depthOf(value), `${json} cut at ${cuts.join(' ')}`);
  }
});

test('values outside strings are counted, and never too few', () => {
  const count = (value: unknown): number => {
    if (typeof value !== 'object' || value === null) return 1;
    return 1 + Object.values(value).reduce((sum: number, each) => sum + count(each), 0);
  };
  for (const value of [1, 'a,[,{', [], {}, [1, 2, 3], { a: [{}, ',"\\', [[]]], b: null }]) {
    const gauge = new JsonGauge();
    gauge.measure(Buffer.from(JSON.stringify(value)));
    assert.ok(gauge.values >= count(value), JSON.stringify(value));
    assert.ok(gauge.values <= 2 * count(value), JSON.stringify(value));
  }
});

test('every single byte is handled', () => {
  const json = JSON.stringify({ 'a\\': ['\\"[', { b: '\\\\' }, [['"]"']]] });
  assert.is(
    measure(
      json,
      Array.from({ length: json.length }, (_, i) => i),
    ),
    4,
  );
});

test.run();
