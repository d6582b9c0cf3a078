/** Parsing of Retry-After headers. */
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { retryAfterSeconds } from '../../src/net/retry-after.ts';

const test = suite('retry after');

const NOW = Date.UTC(1994, 10, 6, 8, 49, 30);
const DAY_SECONDS = 24 * 60 * 60;
const asked = (headers: Readonly<Record<string, string>>): number | null =>
  retryAfterSeconds((name) => headers[name], NOW);
const after = (value: string): number | null => asked({ 'retry-after': value });

test('without a header there is no delay', () => {
  assert.is(asked({}), null);
});

test('seconds, integer or fractional', () => {
  assert.is(after('0'), 0);
  assert.is(after('7'), 7);
  assert.is(after('0.25'), 0.25);
});

test('a date in each HTTP format, in any time zone of this machine', () => {
  for (const date of [
    'Sun, 06 Nov 1994 08:49:37 GMT',
    'Sunday, 06-Nov-94 08:49:37 GMT',
    'Sun Nov  6 08:49:37 1994',
    'Sun Nov 06 08:49:37 1994',
  ]) {
    assert.is(after(date), 7, date);
  }
});

test('a past date means now', () => {
  assert.is(after('Sun, 06 Nov 1994 08:49:00 GMT'), 0);
  assert.is(after('Thu, 01 Jan 1970 00:00:00 GMT'), 0);
});

test('retry-after-ms overrides seconds', () => {
  assert.is(asked({ 'retry-after-ms': '250', 'retry-after': '9' }), 0.25);
  assert.is(asked({ 'retry-after-ms': 'soon', 'retry-after': '9' }), 9);
});

test('invalid values are ignored', () => {
  for (const value of ['', ' ', 'soon', 'in 5 minutes', '5s', '-1', '+1', '1e3', '0x10', 'NaN', 'Infinity', '1,5']) {
    assert.is(after(value), null, value);
  }
  assert.is(after('Sun, 06 Nov 1994'), null);
  assert.is(after('99:99:99'), null);
});

test('the delay is clamped to a day', () => {
  assert.is(after('86401'), DAY_SECONDS);
  assert.is(after('9'.repeat(400)), DAY_SECONDS);
  assert.is(after('Fri, 31 Dec 9999 23:59:59 GMT'), DAY_SECONDS);
  assert.is(asked({ 'retry-after-ms': '9'.repeat(20) }), DAY_SECONDS);
});

test.run();
