import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { availableMemoryBytes, freeDiskBytes, ResourceMeter, totalMemoryBytes } from '../../src/daemon/resources.ts';
import { waitFor } from '../support/wait.ts';

/** Milliseconds of processor time since `start`. */
function spent(start: NodeJS.CpuUsage): number {
  const { user, system } = process.cpuUsage(start);
  return (user + system) / 1000;
}

/** Milliseconds of processor time that a process has used, as the kernel counts it: in hundredths of a second. */
function ticksMs(pid: number): number {
  const stat = readFileSync(`/proc/${String(pid)}/stat`, 'utf8');
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
  return (Number(fields[11]) + Number(fields[12])) * 10;
}

test('the first sample knows no processor time, the next ones do', async () => {
  const meter = new ResourceMeter();
  assert.is((await meter.sample([])).cpuPercent, null);
  await sleep(100);
  assert.type((await meter.sample([])).cpuPercent, 'number');
  const [used, from] = [process.cpuUsage(), performance.now()];
  while (spent(used) < 300);
  const { cpuPercent } = await meter.sample([]);
  // As much of a core as this process could get beside whatever else runs.
  const share = (spent(used) / (performance.now() - from)) * 100;
  assert.ok(Math.abs((cpuPercent ?? 0) - share) < share / 4, `${String(cpuPercent)} of ${share.toFixed(0)} %`);
});

test('the time of an engine process counts, and its end does not make it negative', async () => {
  if (process.platform !== 'linux') return;
  const child = spawn(process.execPath, ['-e', 'for (;;);'], { stdio: 'ignore' });
  const { pid } = child as { pid: number };
  const engines = [{ pid, rssBytes: 1000 }];
  try {
    const meter = new ResourceMeter();
    await meter.sample(engines);
    const [before, own, from] = [ticksMs(pid), process.cpuUsage(), performance.now()];
    await waitFor('it to use half a second of a processor', () => ticksMs(pid) - before > 500);
    const share = ((ticksMs(pid) - before + spent(own)) / (performance.now() - from)) * 100;
    const { cpuPercent: busy } = await meter.sample(engines);
    const [rest, since] = [process.cpuUsage(), performance.now()];
    assert.ok(Math.abs((busy ?? 0) - share) < share / 4 + 5, `${String(busy)} of ${share.toFixed(0)} %`);
    child.kill('SIGKILL');
    await once(child, 'exit');
    await sleep(100);
    const { cpuPercent: after } = await meter.sample(engines);
    const ours = (spent(rest) / (performance.now() - since)) * 100;
    assert.ok((after ?? -1) >= 0 && (after ?? 100) < ours * 1.25 + 10, `${String(after)} of ${ours.toFixed(0)} %`);
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
