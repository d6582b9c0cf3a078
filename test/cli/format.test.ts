import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { bytes, count, duration, short } from '../../src/cli/terminal/format.ts';
import { suggest } from '../../src/protocol/suggest.ts';

test('sizes', () => {
  const cases: [number | null, string][] = [
    [null, '-'],
    [0, '0 B'],
    [999, '999 B'],
    [1000, '1.0 kB'],
    [99_949, '99.9 kB'],
    [99_950, '100 kB'],
    [999_499, '999 kB'],
    [999_500, '1.0 MB'],
    [4_368_439_584, '4.4 GB'],
  ];
  for (const [size, shown] of cases) assert.is(bytes(size), shown);
  assert.is(short(7_615_616_512), '7.6B');
  assert.is(short(512), '512');
});

test('whole numbers are grouped by thousands', () => {
  assert.is(count(null), '-');
  for (const number of [0, 7, 999, 1000, 12_345, 123_456, 1_234_567, 2 ** 40, Number.MAX_SAFE_INTEGER])
    assert.is(count(number), number.toLocaleString('en-US'));
});

test('durations show their two largest units', () => {
  assert.is(duration(null), '-');
  assert.is(duration(0.4), '0s');
  assert.is(duration(67.9), '1m 7s');
  assert.is(duration(3600), '1h');
  assert.is(duration(3605), '1h');
  assert.is(duration(273_900), '3d 4h');
});

test('suggest returns a similar name, or nothing', () => {
  const known = ['start', 'status', 'stop', 'model', 'model list'];
  assert.is(suggest('statsu', known), 'status');
  assert.is(suggest('modle', known), 'model');
  assert.is(suggest('stat', known), 'start');
  assert.is(suggest('statu', known), 'status');
  assert.is(suggest('xyzzy', known), undefined);
  assert.is(suggest('', known), undefined);
});

test.run();
