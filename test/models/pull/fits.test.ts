/** One estimate says whether a model of the catalogue fits: for `svc doctor` and for the console. */
import { tmpdir } from 'node:os';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { suggestedFor } from '../../../src/cli/commands/doctor/advice.ts';
import { catalogueHere } from '../../../src/daemon/models/catalogue-here.ts';
import { catalogue, estimatedBytes } from '../../../src/models/pull/catalogue.ts';
import { lackOfRoom, memoryForModel } from '../../../src/models/pull/fits.ts';
import type { DeviceRecord } from '../../../src/protocol/records.ts';

const GIB = 1024 ** 3;
const host = { totalBytes: 16 * GIB, availableBytes: 9 * GIB };
const device = (type: DeviceRecord['type'], gigabytes: number | null): DeviceRecord => ({
  name: type,
  backend: type,
  type,
  memory_total_bytes: gigabytes === null ? null : gigabytes * GIB,
  memory_free_bytes: 0,
});

test('memory is what the host has available, or a larger GPU', () => {
  assert.is(memoryForModel([device('cpu', 16), device('igpu', 16), device('gpu', null)], host), 9 * GIB);
  assert.is(memoryForModel([device('gpu', 8)], host), 9 * GIB);
  assert.is(memoryForModel([device('gpu', 8), device('gpu', 24)], host), 24 * GIB);
  assert.is(memoryForModel([], { ...host, availableBytes: null }), 16 * GIB);
});

test('what is missing is named', () => {
  assert.is(lackOfRoom(GIB, { memoryBytes: 2 * GIB, diskBytes: 2 * GIB }), undefined);
  assert.match(lackOfRoom(2 * GIB, { memoryBytes: 2 * GIB, diskBytes: null }) ?? '', /^needs about 2\.9 GB of memory/);
  assert.match(lackOfRoom(2 * GIB, { memoryBytes: 9 * GIB, diskBytes: GIB }) ?? '', /^needs 2\.4 GB of disk space/);
});

test('the console calls a model fitting from the same memory on as doctor suggests it', async () => {
  for (const entry of catalogue().models) {
    const bytes = estimatedBytes(entry, entry.default_quantization);
    const edge = 1.1 * bytes + GIB / 2;
    for (const memoryBytes of [edge - 2, edge + 2]) {
      const listed = await catalogueHere([], tmpdir(), memoryBytes);
      const fitting = listed.filter(({ why }) => why === undefined || why.includes('disk')).map(({ name }) => name);
      assert.is(fitting.includes(entry.name), memoryBytes > edge, entry.name);
      const suggested = suggestedFor({ memoryBytes, diskBytes: null, gflops: null }).map(({ name }) => name);
      assert.ok(
        suggested.every((name) => fitting.includes(name)),
        entry.name,
      );
    }
  }
});

test.run();
