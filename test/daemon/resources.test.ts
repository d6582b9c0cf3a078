import { availableParallelism } from 'node:os';
import { setTimeout as sleep } from 'node:timers/promises';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { availableMemoryBytes, freeDiskBytes, ResourceMeter, totalMemoryBytes } from '../../src/daemon/resources.ts';
import { cpuMs } from '../support/cpu-time.ts';

const now = (): { cpuMs: number; at: number } => ({ cpuMs: cpuMs(), at: performance.now() });

test('the first sample has no CPU usage, later ones do', async () => {
  const meter = new ResourceMeter();
  assert.is(meter.sample([]).cpuPercent, null);
  await sleep(100);
  const outerStart = now();
  assert.type(meter.sample([]).cpuPercent, 'number');
  const innerStart = now();
  while (cpuMs() - innerStart.cpuMs < 300);
  const innerEnd = now();
  const { cpuPercent } = meter.sample([]);
  const outerEnd = now();
  // The share of a core that this process got. Other work may have had the core between a reading here and the meter's
  // own, so it is a range.
  const least = (100 * (innerEnd.cpuMs - innerStart.cpuMs)) / (outerEnd.at - outerStart.at);
  const most = (100 * (outerEnd.cpuMs - outerStart.cpuMs)) / (innerEnd.at - innerStart.at);
  assert.ok(cpuPercent !== null && cpuPercent > least - 1 && cpuPercent < most + 1, `${least} ${cpuPercent} ${most}`);
});

test('CPU time reported by an engine counts, its exit does not make usage negative, false reports are clamped', async () => {
  const engine = { pid: 1, rssBytes: 1000 };
  const cores = availableParallelism();
  const meter = new ResourceMeter();
  meter.sample([{ ...engine, cpuMs: 5000 }]);
  const from = performance.now();
  await sleep(100);
  const elapsed = performance.now() - from;
  const busy = meter.sample([{ ...engine, cpuMs: 5000 + elapsed }]).cpuPercent ?? 0;
  assert.ok(busy > 10 && busy < 100 + 100 * cores, `busy: ${String(busy)}`);
  await sleep(20);
  assert.ok((meter.sample([]).cpuPercent ?? -1) >= 0);
  await sleep(20);
  const lie = meter.sample([{ ...engine, cpuMs: Number.MAX_SAFE_INTEGER }]).cpuPercent ?? Infinity;
  assert.ok(lie <= 100 * cores + 110, `lie: ${String(lie)}`);
  await sleep(20);
  assert.ok((meter.sample([{ ...engine, cpuMs: 0 }]).cpuPercent ?? -1) >= 0, 'it counts backwards');
});

test('memory is the sum over all processes, and unknown if one is unknown', () => {
  const meter = new ResourceMeter();
  const alone = meter.sample([]).rssBytes ?? 0;
  assert.ok(alone > 10_000_000);
  const both = meter.sample([{ pid: process.pid, rssBytes: 1_000_000_000, cpuMs: 0 }]).rssBytes ?? 0;
  assert.ok(both > 1_000_000_000 + 10_000_000);
  assert.is(meter.sample([{ pid: process.pid, rssBytes: null, cpuMs: null }]).rssBytes, null);
});

test('free resources of the machine are reported', async () => {
  assert.ok((availableMemoryBytes() ?? 1) > 0 && (availableMemoryBytes() ?? 0) <= totalMemoryBytes());
  assert.ok(((await freeDiskBytes('/')) ?? 0) > 0);
  assert.is(await freeDiskBytes('/not/there'), null);
});

test.run();
