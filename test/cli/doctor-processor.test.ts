/** What doctor reports about CPU kernels, with and without a GPU. */
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { checkProcessor } from '../../src/cli/commands/doctor/engine-checks.ts';
import type { EngineProbe } from '../../src/engine/probe.ts';

const device = (type: string): EngineProbe['devices'][number] =>
  ({ name: type, type, description: '', backend: '', memory_total_bytes: null, memory_free_bytes: null }) as never;

const detailWith = (cpuFeatures: string, ...types: readonly string[]): string | null =>
  checkProcessor({ cpuFeatures, devices: types.map(device), log: ['loaded CPU backend from /a/libggml-cpu-zen4.so'] })
    .detail;

test('our own CPU kernels are reported only for models that use them', () => {
  const features = 'CPU : SSE3 = 1 | AVX = 0 | SVC_AVX2 = 1 | ';
  assert.is(detailWith(features, 'cpu'), 'SSE3 SVC_AVX2');
  assert.is(detailWith(features, 'cpu', 'accel'), 'SSE3 SVC_AVX2');
  for (const gpu of ['gpu', 'igpu']) {
    assert.is(
      detailWith(features, 'cpu', gpu),
      'SSE3 SVC_AVX2; SVC_… kernels only for models that have no layer on a GPU',
    );
    assert.is(detailWith('CPU : SSE3 = 1 | ', 'cpu', gpu), 'SSE3');
  }
});

test.run();
