import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { setTimeout as sleep } from 'node:timers/promises';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { availableMemoryBytes, freeDiskBytes, ResourceMeter, totalMemoryBytes } from '../../src/daemon/resources.ts';

test('the first sample knows no processor time, the next ones do', async () => {
  const meter = new ResourceMeter();
  assert.is((await meter.sample([])).cpuPercent, null);
  await sleep(100);
  const idle = await meter.sample([]);
  assert.type(idle.cpuPercent, 'number');
  const end = performance.now() + 300;
  while (performance.now() < end);
  const busy = await meter.sample([]);
  assert.ok((busy.cpuPercent ?? 0) > 20, `busy: ${String(busy.cpuPercent)}`);
  assert.ok((busy.cpuPercent ?? 0) > (idle.cpuPercent ?? 0));
});

test('the time of an engine process counts, and its end does not make it negative', async () => {
  if (process.platform !== 'linux') return;
  const child = spawn(process.execPath, ['-e', 'for (;;);'], { stdio: 'ignore' });
  const engines = [{ pid: child.pid as number, rssBytes: 1000 }];
  try {
    const meter = new ResourceMeter();
    await meter.sample(engines);
    await sleep(1000);
    const busy = await meter.sample(engines);
    assert.ok((busy.cpuPercent ?? 0) > 20, `busy: ${String(busy.cpuPercent)}`);
    assert.ok((busy.cpuPercent ?? 0) < 150, `busy: ${String(busy.cpuPercent)}`);
    child.kill('SIGKILL');
    await once(child, 'exit');
    await sleep(100);
    const after = await meter.sample(engines);
    assert.ok((after.cpuPercent ?? -1) >= 0 && (after.cpuPercent ?? 100) < 90, `after: ${String(after.cpuPercent)}`);
  } finally {
    child.kill('SIGKILL');
  }
});

test('memory is the sum of all, and unknown as soon as one is', async () => {
  const meter = new ResourceMeter();
  const alone = (await meter.sample([])).rssBytes ?? 0;
  assert.ok(alone > 10_000_000);
  const both = (await meter.sample([{ pid: process.pid, rssBytes: 1_000_000_000 }])).rssBytes ?? 0;
  assert.ok(both > 1_000_000_000 + 10_000_000);
  assert.is((await meter.sample([{ pid: process.pid, rssBytes: null }])).rssBytes, null);
});

test('what is left of the machine', async () => {
  assert.ok((availableMemoryBytes() ?? 1) > 0 && (availableMemoryBytes() ?? 0) <= totalMemoryBytes());
  assert.ok(((await freeDiskBytes('/')) ?? 0) > 0);
  assert.is(await freeDiskBytes('/not/there'), null);
});

test.run();
