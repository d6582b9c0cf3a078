/** `svc ps`: the models in memory, as the daemon measures them. */
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { assertExit } from '../support/exit.ts';
import { makeHome, type Home } from '../support/home.ts';
import { svc } from '../support/svc.ts';
import { waitFor } from '../support/wait.ts';

const test = suite<{ home: Home }>('ps');
test.before(async (context) => {
  context.home = await makeHome();
});
test.after(async ({ home }) => {
  await svc(['stop', '--force'], { home });
  await home.remove();
});

test('without a daemon it exits 3', async ({ home }) => {
  const result = await svc(['ps'], { home });
  assertExit(result, 3);
  assert.is(result.stdout, '');
  assert.match(result.stderr, /svc start/);
});

test('lists each model with its process, device and load', async ({ home }) => {
  assertExit(await svc(['start', '--timeout', '150s'], { home }), 0);
  const model = await waitFor('a measured model', async () => {
    const { stdout } = await svc(['ps', '--json'], { home });
    const { models } = JSON.parse(stdout) as { models: Record<string, unknown>[] };
    return models.find(({ rss_bytes, kv_cells_total }) => rss_bytes !== null && kv_cells_total !== null);
  });
  assert.equal(Object.keys(model), [
    'id',
    'state',
    'pid',
    'rss_bytes',
    'context_length',
    'cache_type',
    'active',
    'waiting',
    'kv_cells_used',
    'kv_cells_cached',
    'kv_cells_total',
    'kv_tokens_swapped',
    'tokens_per_second',
    'steps',
    'device',
    'placement',
    'expires_at',
  ]);
  assert.is(model['id'], 'builtin');
  assert.is(model['state'], 'loaded');
  assert.type(model['device'], 'string');
  process.kill(model['pid'] as number, 0);
  const { stdout } = await svc(['ps'], { home });
  assert.match(stdout, /^MODEL +STATE +MEMORY +CONTEXT +EXPIRES +ACTIVE +WAITING +TOKENS\/S +DEVICE +CELLS +PID\n/);
  assert.match(stdout, new RegExp(`^builtin +loaded +[\\d.]+ MB +\\S+ +never .* ${String(model['pid'])}$`, 'm'));
  assertExit(await svc(['model', 'unload', 'builtin'], { home }), 0);
  assert.is((await svc(['ps'], { home })).stdout, 'no model is in memory\n');
});

test.run();
