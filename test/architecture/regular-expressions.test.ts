/**
 * Every regular expression of src/ takes linear time on any input. A super-linear one would let a client stall the
 * daemon. Each expression is measured on up to a MiB of its worst-case strings.
 */
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { pumpsOf } from '../support/pumped-strings.ts';
import { expressionsIn, Stopwatch, toRegExp, type Slow } from '../support/regular-expressions.ts';
import { read, trackedFiles } from './source-files.ts';

const stopwatch = new Stopwatch();
test.after(async () => {
  await stopwatch.close();
});

const sources = trackedFiles().filter((path) => path.startsWith('src/') && path.endsWith('.ts'));
const expressions = sources.flatMap((path) => expressionsIn(path, read(path)));

async function measure(expression: RegExp, deadlineMs?: number): Promise<Slow | null> {
  return await stopwatch.measure(expression, pumpsOf(expression), deadlineMs);
}

test('known slow expressions are detected', async () => {
  for (const slow of [
    /input token count .* exceeds/i,
    /<([^>]+)>\s*;\s*rel="next"/,
    /[^a-z0-9]+$/i,
    /^[a-z0-9-]*[a-z][a-z0-9-]*$/,
    /^\s*state = running$/m,
    /(\w+) = 1/g,
    /^.*(?:key|token).*$/,
    /^(?:\w+\s?)*$/,
    /claude\D*(\d{1,2})/,
  ]) {
    // One of them is exponential and does not finish its first string; hence the deadline.
    const found = await measure(slow, 5000);
    assert.ok(found !== null, `${String(slow)} was not found to be slow`);
  }
});

test('linear expressions are not reported', async () => {
  for (const fast of [
    /^[a-z0-9](?:[a-z0-9._-]*[a-z0-9])?$/i,
    /[\p{Cc}\s]+/gu,
    /^(.*)-(\d{5})-of-(\d{5})$/,
    /a.{0,20}b/,
  ]) {
    assert.is(await measure(fast), null, String(fast));
  }
});

test('every regular expression in src/ is linear', async () => {
  assert.ok(expressions.length > 100);
  const slow: string[] = [];
  const known = new Map<string, string[]>();
  for (const { place, text } of expressions) {
    assert.ok(text !== null, `${place} puts an expression together, which cannot be measured: write a literal`);
    known.set(text, [...(known.get(text) ?? []), place]);
  }
  for (const [text, places] of known) {
    const found = await measure(toRegExp(text));
    if (found !== null)
      slow.push(`${places.join(', ')} ${text} at ${JSON.stringify(found.pump)}: ${String(found.ratio)}`);
  }
  assert.equal(slow, []);
});

test.run();
