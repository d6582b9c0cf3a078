/** Quotas of API keys, counted from a ledger. */
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { appendFile, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import type { KeyLimits } from '../../src/protocol/keys.ts';
import { usageOf } from '../../src/usage/answered.ts';
import { Quotas } from '../../src/usage/quotas.ts';
import { CONTROL_CALLER } from '../../src/protocol/caller.ts';
import { rejection } from '../support/errors.ts';

let dir = '';
test.before.each(async () => {
  dir = await mkdtemp(path.join(tmpdir(), 'svc-quotas-'));
});
test.after.each(async () => {
  await rm(dir, { recursive: true });
});

const HOUR = 3_600_000;
const NOON = Date.parse('2026-11-30T12:00:00Z');
const ANSWER = { provider: 'local', model: 'm', outcome: 'ok', cached_tokens: 4 } as const;

/** A clock and the quotas of a process that starts at its time. */
function processAt(start: number, trouble: string | null = null): { quotas: Quotas; clock: { now: number } } {
  const clock = { now: start };
  return { clock, quotas: new Quotas({ dir, trouble: () => trouble, now: () => clock.now }) };
}

const caller = (name: string, limits: KeyLimits) => ({ name, limits });

async function write(at: string, key: string | null, tokens: number): Promise<void> {
  const line = { event: 'answered', at, ...ANSWER, key, input_tokens: tokens, output_tokens: 0 };
  await appendFile(path.join(dir, `usage-${at.slice(0, 7)}.jsonl`), `${JSON.stringify(line)}\n`);
}

test('prompts and answers count; the refusal says when the quota renews', async () => {
  const { quotas, clock } = processAt(NOON);
  const laptop = caller('laptop', { tokens_per_day: 30 });
  for (let answers = 0; answers < 2; answers++) {
    await quotas.admit(laptop);
    quotas.answered({ ...ANSWER, key: 'laptop', input_tokens: 10, output_tokens: 5 });
  }
  const error = await rejection(() => quotas.admit(laptop), 'BUSY');
  assert.is(
    error.message,
    'the API key laptop has used up its quota of 30 tokens per day; it renews at 2026-12-01T00:00:00Z',
  );
  assert.equal([error.retryAfterSeconds, error.retryable], [12 * 3600, false]);
  await quotas.admit(caller('other', { tokens_per_day: 30 }));
  await quotas.admit(caller('laptop', { tokens_per_day: 31 }));
  await quotas.admit({ name: 'laptop' });
  clock.now += 12 * HOUR;
  await quotas.admit(laptop);
});

test('a month counts all its days and renews with the next one, also in another year', async () => {
  await write('2026-11-01T00:00:00.000Z', 'laptop', 60);
  await write('2026-10-31T23:59:59.999Z', 'laptop', 1000);
  const { quotas } = processAt(NOON);
  const laptop = caller('laptop', { tokens_per_day: 50, tokens_per_month: 100 });
  await quotas.admit(laptop);
  quotas.answered({ ...ANSWER, key: 'laptop', input_tokens: 40, output_tokens: 0 });
  await rejection(() => quotas.admit(laptop), 'BUSY', /100 tokens per month; it renews at 2026-12-01T00:00:00Z$/);

  await write('2026-12-03T00:00:00.000Z', 'laptop', 100);
  const later = processAt(Date.parse('2026-12-31T23:59:59Z'));
  const error = await rejection(() => later.quotas.admit(laptop), 'BUSY', /renews at 2027-01-01T00:00:00Z$/);
  assert.is(error.retryAfterSeconds, 1);
  later.clock.now += 1000;
  await later.quotas.admit(laptop);
});

test('a new process goes on counting where the last one was killed, and counts no answer twice', async () => {
  await write('2026-11-30T01:00:00.000Z', 'laptop', 20);
  await write('2026-11-30T02:00:00.000Z', null, 500);
  await appendFile(path.join(dir, 'usage-2026-11.jsonl'), '{"event":"answ');
  const { quotas, clock } = processAt(NOON);
  // The ledger has its own answers, too, when it is read.
  clock.now += 1000;
  await appendFile(path.join(dir, 'usage-2026-11.jsonl'), '\n');
  await write('2026-11-30T12:00:01.000Z', 'laptop', 10);
  quotas.answered({ ...ANSWER, key: 'laptop', input_tokens: 10, output_tokens: 0 });
  await quotas.admit(caller('laptop', { tokens_per_day: 31 }));
  await rejection(() => quotas.admit(caller('laptop', { tokens_per_day: 30 })), 'BUSY');
});

test('what cannot be counted is refused, for keys with a quota only', async () => {
  const limits = { tokens_per_day: 1_000 };
  const broken = processAt(NOON, 'cannot write the usage ledger: no space').quotas;
  await rejection(() => broken.admit(caller('laptop', limits)), 'CANNOT_WRITE', /has a quota, but .* no space/);
  await broken.admit({ name: 'laptop' });
  await broken.admit({ name: null });

  const notAFolder = path.join(dir, 'file');
  await writeFile(notAFolder, '');
  const unreadable = new Quotas({ dir: notAFolder, trouble: () => null, now: () => NOON });
  await rejection(() => unreadable.admit(caller('laptop', limits)), 'CANNOT_WRITE');
  await rm(notAFolder);
  await unreadable.admit(caller('laptop', limits));
});

test('what is estimated of an answer counts if its usage is unknown', () => {
  const estimated = { input_tokens: 7, output_tokens: 3 };
  const outcome = {
    provider: 'local',
    model: 'm',
    outcome: 'CANCELLED',
    caller: CONTROL_CALLER,
    finish: null,
  } as const;
  const { input_tokens, output_tokens } = usageOf({ ...outcome, kind: 'generation', estimated });
  assert.equal([input_tokens, output_tokens], [7, 3]);
  assert.is(usageOf({ ...outcome, kind: 'tokenizing', estimated }).output_tokens, null);
  assert.is(usageOf({ ...outcome, kind: 'generation' }).output_tokens, null);
});

test.run();
