/** An unusable usage ledger blocks only providers with a budget, and only while it is unusable. */
import { execFileSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { Budgets } from '../../src/usage/budgets.ts';
import { readUsage, type AnsweredLine } from '../../src/usage/ledger.ts';
import { stallFiles } from '../support/stalled-files.ts';
import { waitFor } from '../support/wait.ts';
import { rejection } from '../support/errors.ts';

const scratch = mkdtempSync(join(tmpdir(), 'svc-ledger-troubles-'));
test.after(() => {
  rmSync(scratch, { recursive: true, force: true });
});

const NOON = Date.parse('2026-11-15T12:00:00Z');
const DAY_MS = 86_400_000;
const answer = (provider: string): Omit<AnsweredLine, 'event' | 'at'> => ({
  provider,
  model: 'm',
  outcome: 'ok',
  input_tokens: 1,
  cached_tokens: null,
  output_tokens: 1,
});

/** Provider `paid` has a budget of `requests`, all others have none. */
function budgetsIn(dir: string, requests = 5, now: () => number = () => NOON): Budgets {
  return new Budgets({
    dir,
    budgetOf: (provider) => ({ requestsPerDay: provider === 'paid' ? requests : null, tokensPerDay: null }),
    onFailure: () => undefined,
    now,
  });
}

async function providersIn(dir: string): Promise<string[]> {
  const providers: string[] = [];
  for await (const line of readUsage(dir, '2026-11-01')) if (line.event === 'answered') providers.push(line.provider);
  return providers;
}

const IN_ITS_PLACE: Record<string, (ledger: string) => void> = {
  'a directory': (ledger) => mkdirSync(ledger),
  'a FIFO': (ledger) => execFileSync('mkfifo', [ledger]),
  'a loop of links': (ledger) => symlinkSync(ledger, ledger),
};

for (const [name, plant] of Object.entries(IN_ITS_PLACE)) {
  test(`${name} at the ledger path: requests are refused, the failure is not cached, and it recovers by itself`, async () => {
    const dir = join(scratch, name.replaceAll(' ', '-'));
    const ledger = join(dir, 'usage-2026-11.jsonl');
    mkdirSync(dir);
    plant(ledger);
    const budgets = budgetsIn(dir);
    await budgets.answered(answer('local'));
    const error = await rejection(() => budgets.admit('paid'), 'CANNOT_WRITE');
    assert.match(error.hint ?? '', /svc doctor/);
    await budgets.answered(answer('paid'));
    await waitFor('the trouble', () => budgets.trouble);

    rmSync(ledger, { recursive: true });
    await budgets.admit('paid');
    await waitFor('its end', () => budgets.trouble === null);
    await budgets.close();
    assert.equal(await providersIn(dir), ['local', 'paid']);
  });
}

test('lines that are being written again when svc stops are written once', async () => {
  const dir = join(scratch, 'again');
  const ledger = join(dir, 'usage-2026-11.jsonl');
  mkdirSync(dir);
  symlinkSync(ledger, ledger);
  const budgets = budgetsIn(dir);
  const lines = Array.from({ length: 500 }, (_, index) => `p${String(index)}`);
  for (const provider of lines) await budgets.answered(answer(provider));
  // A provider with a budget waits for its line, which comes after all others.
  await budgets.answered(answer('paid'));
  lines.push('paid');

  rmSync(ledger);
  await waitFor('the first of them', () => budgets.trouble === null, { intervalMs: 1 });
  await budgets.close();
  // On a busy machine the last ones may come after close, which waits for a second.
  await waitFor('the last of them', async () => (await providersIn(dir)).length >= lines.length);
  assert.equal((await providersIn(dir)).sort(), lines.sort());
});

test('a file at the path of the directory', async () => {
  const dir = join(scratch, 'file');
  writeFileSync(dir, '');
  const budgets = budgetsIn(dir);
  await rejection(() => budgets.admit('paid'), 'CANNOT_WRITE');
  await budgets.answered(answer('paid'));
  rmSync(dir);
  mkdirSync(dir);
  await budgets.admit('paid');
  await budgets.close();
});

test('a stalled disk: answers do not wait, except a second for a provider with a budget', async () => {
  const dir = join(scratch, 'still');
  mkdirSync(dir);
  const budgets = budgetsIn(dir);
  await budgets.admit('paid');
  const goOn = await stallFiles();
  try {
    const turn = await Promise.race([
      budgets.answered(answer('local')).then(() => 'answered'),
      new Promise((resolve) => setImmediate(() => setImmediate(resolve))),
    ]);
    assert.is(turn, 'answered');
    const began = performance.now();
    await budgets.answered(answer('paid'));
    assert.ok(performance.now() - began >= 900);
    await waitFor('the trouble', () => budgets.trouble);
  } finally {
    await goOn();
  }
  await waitFor('its end', () => budgets.trouble === null);
  await budgets.close();
  assert.equal(await providersIn(dir), ['local', 'paid']);
});

test('a stalled disk at process exit', async () => {
  const dir = join(scratch, 'end');
  mkdirSync(dir);
  const budgets = budgetsIn(dir);
  const goOn = await stallFiles();
  try {
    await budgets.answered(answer('local'));
    await budgets.close();
  } finally {
    await goOn();
  }
});

test('a clock that steps over midnight and back loses no usage, whichever day it started on', async () => {
  for (const steps of [
    [0, 1, 0],
    [1, 0, 1],
    [0, 40, -40, 20, 7, 0],
  ]) {
    const dir = mkdtempSync(join(scratch, 'clock-'));
    let now = NOON;
    const budgets = budgetsIn(dir, 1, () => now);
    const used = new Set<number>();
    for (const step of steps) {
      now = NOON + step * DAY_MS;
      if (used.has(step)) await rejection(() => budgets.admit('paid'), 'BUSY');
      else await budgets.admit('paid');
      used.add(step);
    }
    await budgets.close();
    // Simulates another process, started on another day.
    now = NOON + 90 * DAY_MS;
    const again = budgetsIn(dir, 1, () => now);
    await again.admit('paid');
    now = NOON;
    await rejection(() => again.admit('paid'), 'BUSY');
    await again.close();
  }
});

test.run();
