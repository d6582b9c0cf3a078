/** Suggestions for mistyped names. */
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { suggest } from '../../src/protocol/suggest.ts';

const KNOWN = ['temperature', 'top_k', 'top_p', 'stop'];

test('the closest name is suggested, or one that begins so', () => {
  assert.is(suggest('tempratur', KNOWN), 'temperature');
  assert.is(suggest('topk', KNOWN), 'top_k');
  assert.is(suggest('tem', KNOWN), 'temperature');
  assert.is(suggest('seed', KNOWN), undefined);
});

test('a long text is not compared letter by letter', () => {
  const timeOf = (work: () => void): number => {
    const from = process.cpuUsage();
    work();
    return process.cpuUsage(from).user;
  };
  const long = 'temperature'.repeat(1024 * 1024);
  const ofShort = timeOf(() => {
    for (let time = 0; time < 10_000; time += 1) suggest('tempratur', KNOWN);
  });
  assert.ok(timeOf(() => assert.is(suggest(long, KNOWN), undefined)) < ofShort);
});

test.run();
