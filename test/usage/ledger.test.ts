import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { appendFile, mkdtemp, readdir, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { Budgets, type Budget } from '../../src/usage/budgets.ts';
import { LedgerFile, readUsage, type AnsweredLine, type UsageLine } from '../../src/usage/ledger.ts';
import { summarise } from '../../src/usage/summary.ts';
import { rejection } from '../support/errors.ts';

let dir = '';
test.before.each(async () => {
  dir = await mkdtemp(path.join(tmpdir(), 'svc-usage-'));
});
test.after.each(async () => {
  await rm(dir, { recursive: true });
});

const DAY = Date.parse('2026-11-30T23:00:00Z');
const HOUR = 3_600_000;
const ANSWER: Omit<AnsweredLine, 'event' | 'at'> = {
  provider: 'a',
  key: null,
  model: 'm',
  outcome: 'ok',
  input_tokens: 10,
  cached_tokens: 4,
  output_tokens: 5,
};

function budgets(budget: Partial<Budget>, now = DAY, failures: unknown[] = []): Budgets {
  return new Budgets({
    dir,
    budgetOf: () => ({ requestsPerDay: null, tokensPerDay: null, ...budget }),
    onFailure: (error) => failures.push(error),
    now: () => now,
  });
}

async function all(from: string): Promise<UsageLine[]> {
  const lines: UsageLine[] = [];
  for await (const line of readUsage(dir, from)) lines.push(line);
  return lines;
}

test('lines are in a file per month, with access for the owner only', async () => {
  const file = new LedgerFile(dir);
  await file.append({ event: 'asked', at: '2026-11-30T23:59:59.999Z', provider: 'a' });
  await file.append({ event: 'asked', at: '2026-12-01T00:00:00.000Z', provider: 'b' });
  await file.close();
  assert.equal((await readdir(dir)).sort(), ['usage-2026-11.jsonl', 'usage-2026-12.jsonl']);
  assert.equal(
    (await all('2026-11-01')).map(({ provider }) => provider),
    ['a', 'b'],
  );
  assert.equal(
    (await all('2026-12-01')).map(({ provider }) => provider),
    ['b'],
  );
});

test('a torn line is skipped and the next one is complete', async () => {
  const name = path.join(dir, 'usage-2026-11.jsonl');
  await appendFile(name, '{"event":"asked","at":"2026-11-30T01:00:00.000Z","provider":"a"}\n{"event":"ask');
  const file = new LedgerFile(dir);
  await file.append({ event: 'asked', at: '2026-11-30T02:00:00.000Z', provider: 'b' });
  await file.close();
  assert.equal(
    (await all('2026-11-30')).map(({ provider }) => provider),
    ['a', 'b'],
  );
});

test('a request budget: requests above it are refused with a hint and the time of its renewal', async () => {
  const today = budgets({ requestsPerDay: 2 });
  await today.admit('a');
  await today.admit('a');
  const error = await rejection(() => today.admit('a'), 'BUSY');
  assert.is(error.message, 'a has used up its budget of 2 requests per day');
  assert.match(error.hint ?? '', /svc config set providers\.a\.requests_per_day/);
  assert.is(error.retryAfterSeconds, 3600);
  await today.admit('b');
  await today.close();

  const restarted = budgets({ requestsPerDay: 2 });
  await rejection(() => restarted.admit('a'), 'BUSY');
  await restarted.close();
  const tomorrow = budgets({ requestsPerDay: 2 }, DAY + HOUR);
  await tomorrow.admit('a');
  await tomorrow.close();
});

test('a token budget counts prompts and answers, including those of earlier processes', async () => {
  const first = budgets({ tokensPerDay: 30 });
  await first.answered(ANSWER);
  await first.admit('a');
  await first.answered({ ...ANSWER, outcome: 'PROVIDER_FAILED', input_tokens: null, output_tokens: null });
  await first.admit('a');
  await first.answered(ANSWER);
  await rejection(() => first.admit('a'), 'BUSY', /budget of 30 tokens per day/);
  await first.close();
  const again = budgets({ tokensPerDay: 31 });
  await again.admit('a');
  await again.answered(ANSWER);
  await rejection(() => again.admit('a'), 'BUSY');
  await again.close();
});

test('if the ledger cannot be written, answers still succeed and budgets are not exceeded', async () => {
  const failures: unknown[] = [];
  const nowhere = new Budgets({
    dir: path.join(dir, 'missing'),
    budgetOf: (provider) => ({ requestsPerDay: provider === 'a' ? 5 : null, tokensPerDay: null }),
    onFailure: (error) => failures.push(error),
  });
  await nowhere.admit('free');
  await nowhere.answered(ANSWER);
  await nowhere.answered(ANSWER);
  assert.is(failures.length, 1);
  await rejection(() => nowhere.admit('a'), 'CANNOT_WRITE');
  await nowhere.close();
});

test('kill -9 loses no line that was confirmed as written', async () => {
  const script = `
    import { Budgets } from ${JSON.stringify(new URL('../../src/usage/budgets.ts', import.meta.url).href)};
    const budgets = new Budgets({
      dir: ${JSON.stringify(dir)},
      budgetOf: () => ({ requestsPerDay: 1e9, tokensPerDay: null }),
      onFailure: () => process.exit(1),
    });
    for (let n = 1; ; n++) {
      await budgets.admit('a');
      process.stdout.write(n + '\\n');
    }`;
  const child = spawn(process.execPath, ['--import', 'tsx', '--input-type=module', '-e', script], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  let out = '';
  child.stdout.setEncoding('utf8').on('data', (text: string) => {
    out += text;
    if (out.length > 5000) child.kill('SIGKILL');
  });
  await once(child, 'close');
  const said = Number(out.trimEnd().split('\n').at(-2));
  const lines = await all('2000-01-01');
  assert.ok(said > 100 && lines.length >= said, `${String(lines.length)} of ${String(said)}`);
});

test('the summary has totals by day, provider and model', async () => {
  const file = new LedgerFile(dir);
  const at = (day: string): string => `2026-11-${day}T10:00:00.000Z`;
  await file.append({ event: 'answered', at: at('02'), ...ANSWER, estimated: true });
  await file.append({ event: 'asked', at: at('01'), provider: 'a' });
  await file.append({ event: 'answered', at: at('01'), ...ANSWER });
  await file.append({
    event: 'answered',
    at: at('01'),
    ...ANSWER,
    input_tokens: null,
    cached_tokens: null,
    output_tokens: null,
  });
  await file.append({
    event: 'answered',
    at: at('01'),
    ...ANSWER,
    outcome: 'BUSY',
    model: null,
    input_tokens: null,
    cached_tokens: null,
    output_tokens: null,
  });
  await file.close();
  const row = { provider: 'a', input_tokens: 10, cached_tokens: 4, output_tokens: 5 };
  assert.equal(await summarise(readUsage(dir, '2026-11-01')), [
    {
      day: '2026-11-01',
      ...row,
      model: null,
      requests: 1,
      failed: 1,
      input_tokens: 0,
      cached_tokens: 0,
      output_tokens: 0,
      untold: 0,
    },
    { day: '2026-11-01', ...row, model: 'm', requests: 2, failed: 0, untold: 1 },
    { day: '2026-11-02', ...row, model: 'm', requests: 1, failed: 0, untold: 1 },
  ]);
});

test('the summary has totals by API key; lines of an older svc have no key', async () => {
  const file = new LedgerFile(dir);
  const at = '2026-11-01T10:00:00.000Z';
  const { key: _, ...old } = ANSWER;
  for (const line of [
    { ...ANSWER, key: 'laptop' },
    { ...ANSWER, key: 'laptop' },
    { ...ANSWER, key: 'ci' },
    ANSWER,
    old,
  ])
    await file.append({ event: 'answered', at, ...line });
  await file.close();
  const usage = await summarise(readUsage(dir, '2026-11-01'), { byKey: true });
  assert.equal(
    usage.map(({ key, requests, input_tokens }) => [key, requests, input_tokens]),
    [
      [null, 2, 20],
      ['ci', 1, 10],
      ['laptop', 2, 20],
    ],
  );
  assert.equal(Object.keys((await summarise(readUsage(dir, '2026-11-01')))[0]!).includes('key'), false);
});

test.run();
