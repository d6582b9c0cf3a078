import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { formatLogLine, isAtLeast, parseLogLine } from '../../src/log/format.ts';

const plain = { colour: false, date: false };
const record = (fields: Record<string, unknown>): string =>
  JSON.stringify({ level: 'info', time: '2026-01-02T03:04:05.006Z', msg: 'hello', ...fields });

test('a record becomes one line: time, level, message, fields', () => {
  assert.match(
    formatLogLine(record({ model: 'm1', note: 'a b', n: 3 }), plain),
    /^\d\d:\d\d:05\.006 INFO  hello model=m1 note="a b" n=3$/,
  );
  assert.match(
    formatLogLine(record({}), { colour: false, date: true }),
    /^\d{4}-\d\d-\d\d \d\d:\d\d:05\.006 INFO {2}hello$/,
  );
});

test('colour only on request', () => {
  assert.not.match(formatLogLine(record({ a: 1 }), plain), /\u001b/);
  assert.match(formatLogLine(record({ a: 1 }), { colour: true, date: false }), /\u001b\[32mINFO/);
});

test('an error shows its code and message, with the stack below', () => {
  const text = formatLogLine(
    record({ err: { type: 'SvcError', code: 'BUSY', message: 'full', stack: '    at f (a.ts:1)\n    at g' } }),
    plain,
  );
  assert.equal(text.split('\n').slice(1), ['    at f (a.ts:1)', '    at g']);
  assert.match(text, 'err="BUSY: full"');
});

test('control characters never reach the terminal, from a record or from a stray line', () => {
  for (const line of [
    record({ msg: 'a\u001b[2Jb' }),
    record({ f: 'a\u001b[2Jb\u009b' }),
    'stray \u001b]0;title\u0007',
  ]) {
    assert.not.match(formatLogLine(line, plain), /[\u0000-\u0008\u000b-\u001f\u007f-\u009f]/);
  }
});

test('a line that is not a log record passes unchanged and counts as severe', () => {
  for (const line of [
    'FATAL ERROR: Reached heap limit',
    '{"level":"info"}',
    '{',
    '{"level":30,"time":"x","msg":"y"}',
    '',
  ]) {
    assert.is(parseLogLine(line), null);
    assert.is(formatLogLine(line, plain), line);
    assert.ok(isAtLeast(line, 'fatal'));
  }
});

test('isAtLeast compares severity', () => {
  assert.ok(isAtLeast(record({ level: 'warn' }), 'warn'));
  assert.ok(isAtLeast(record({ level: 'error' }), 'warn'));
  assert.not.ok(isAtLeast(record({ level: 'info' }), 'warn'));
});

test.run();
