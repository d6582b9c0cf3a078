/** `svc bench`: figures of a real engine, through a real daemon. */
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { makeHome, type Home } from '../support/home.ts';
import { svc } from '../support/svc.ts';

const test = suite<{ home: Home }>('bench');
test.before(async (context) => {
  context.home = await makeHome();
});
test.after(async ({ home }) => {
  await svc(['stop', '--force'], { home });
  await home.remove();
});

test('needs a daemon, and runs', async ({ home }) => {
  const result = await svc(['bench'], { home });
  assert.is(result.code, 3);
  assert.is(result.stdout, '');
  assert.is((await svc(['bench', '--runs', '0'], { home })).code, 2);
});

test('tells the median, least and most of what was measured', async ({ home }) => {
  assert.is((await svc(['start', '--timeout', '60s'], { home })).code, 0);
  const args = ['bench', '--runs', '3', '--prompt-tokens', '300', '--max-tokens', '16'];
  const result = await svc([...args, '--json'], { home });
  assert.is(result.code, 0, result.stderr);
  const record = JSON.parse(result.stdout) as Record<string, any>;
  assert.equal(Object.keys(record), [
    'model',
    'provider',
    'runs',
    'input_tokens',
    'output_tokens',
    'ttft_ms',
    'prefill_tokens_per_second',
    'decode_tokens_per_second',
  ]);
  assert.is(record['model'], 'builtin');
  assert.is(record['runs'], 3);
  for (const name of Object.keys(record).slice(3)) {
    const { median, min, max } = record[name];
    assert.ok(min > 0 && min <= median && median <= max, `${name}: ${JSON.stringify(record[name])}`);
  }
  // About: the words are drawn anew for each prompt.
  assert.ok(Math.abs(record['input_tokens'].median - 300) <= 45, JSON.stringify(record['input_tokens']));
  assert.ok(record['output_tokens'].max <= 16);
  assert.match((await svc(args, { home })).stdout, /^prefill: +[\d.]+ tokens\/s \([\d.]+ to [\d.]+\)$/m);
});

test('a prompt that does not fit is refused', async ({ home }) => {
  const result = await svc(['bench', '--prompt-tokens', '20000', '--runs', '1'], { home });
  assert.is(result.code, 65);
  assert.match(result.stderr, /more than the context/);
});

test.run();
