/** `svc bench` with a real daemon and engine. */
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import type { StepsHealth } from '../../src/protocol/records.ts';
import { assertExit } from '../support/exit.ts';
import { makeHome, type Home } from '../support/home.ts';
import { svc } from '../support/svc.ts';

type Steps = StepsHealth & Record<'rows_per_step' | 'kv_cells_cached' | 'kv_cells_total' | 'kv_tokens_swapped', number>;

const test = suite<{ home: Home }>('bench');
test.before(async (context) => {
  context.home = await makeHome();
});
test.after(async ({ home }) => {
  await svc(['stop', '--force'], { home });
  await home.remove();
});

test('without a daemon it exits 3; with --runs 0 it exits 2', async ({ home }) => {
  const result = await svc(['bench'], { home });
  assertExit(result, 3);
  assert.is(result.stdout, '');
  assertExit(await svc(['bench', '--runs', '0'], { home }), 2);
});

test('reports median, minimum and maximum of each measurement', async ({ home }) => {
  assertExit(await svc(['start', '--timeout', '150s'], { home }), 0);
  const args = ['bench', '--runs', '3', '--prompt-tokens', '300', '--max-tokens', '16'];
  const result = await svc([...args, '--json'], { home });
  assertExit(result, 0);
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
    'steps',
  ]);
  assert.is(record['model'], 'builtin');
  assert.is(record['runs'], 3);
  for (const name of Object.keys(record).slice(3, -1)) {
    const { median, min, max } = record[name];
    assert.ok(min > 0 && min <= median && median <= max, `${name}: ${JSON.stringify(record[name])}`);
  }
  // Approximate, because each prompt has other random words.
  assert.ok(Math.abs(record['input_tokens'].median - 300) <= 45, JSON.stringify(record['input_tokens']));
  assert.ok(record['output_tokens'].max <= 16);
  const shown = (await svc(args, { home })).stdout;
  assert.match(shown, /^reads: +[\d.]+ prompt tokens\/s \([\d.]+ to [\d.]+\)$/m);
  assert.match(shown, /^writes: +[\d.]+ tokens\/s/m);
  assert.not.match(shown, /steps|cells|predicted/);
});

test('reports the engine counters of these runs only', async ({ home }) => {
  const args = ['bench', '--json', '--runs', '2', '--prompt-tokens', '200', '--max-tokens', '8'];
  for (const { stdout } of [await svc(args, { home }), await svc(args, { home })]) {
    const { steps } = JSON.parse(stdout) as { steps: Steps };
    // Two runs and two warm-ups of at most 8 tokens each, plus the end token of each.
    assert.ok(steps.generated_tokens >= 4 && steps.generated_tokens <= 4 * 8 + 4, JSON.stringify(steps));
    assert.ok(steps.prompt_tokens + steps.cached_tokens >= 400, JSON.stringify(steps));
    assert.ok(steps.count > 0 && steps.rows_per_step >= 1 && steps.spent_ms > 0, JSON.stringify(steps));
    assert.ok(steps.kv_cells_cached > 0 && steps.kv_cells_cached < steps.kv_cells_total, JSON.stringify(steps));
    assert.type(steps.kv_tokens_swapped, 'number');
    assert.is(steps.preemptions, 0);
  }
});

test('a prompt longer than the context is refused', async ({ home }) => {
  const result = await svc(['bench', '--prompt-tokens', '20000', '--runs', '1'], { home });
  assertExit(result, 65);
  assert.match(result.stderr, /the context of \d+ has room for \d+ and an answer/);
});

test.run();
