/** The record of `svc doctor --json`, checked against its schema. */
import * as assert from 'uvu/assert';
import * as v from 'valibot';
import { CHECK_NAMES, type DoctorCheck, type DoctorRecord } from '../../src/protocol/doctor.ts';
import { given } from '../../src/protocol/given.ts';
import type { Home } from '../support/home.ts';
import { svc } from '../support/svc.ts';

export const isBad = ({ status }: DoctorCheck): boolean => status === 'warn' || status === 'fail';

const nullableText = v.nullable(v.pipe(v.string(), v.minLength(1)));
const DoctorRecordSchema = v.strictObject({
  ok: v.boolean(),
  advice: v.strictObject({
    first: nullableText,
    only_builtin: v.boolean(),
    models: v.array(
      v.strictObject({
        name: v.string(),
        command: v.pipe(v.string(), v.startsWith('svc pull ')),
        estimated_bytes: v.pipe(v.number(), v.minValue(1)),
        estimated_tokens_per_second: v.nullable(v.number()),
        good_at: v.string(),
      }),
    ),
  }),
  checks: v.array(
    v.strictObject({
      name: v.union([v.picklist(CHECK_NAMES), v.custom<`device ${string}`>((name) => /^device \S/.test(String(name)))]),
      status: v.picklist(['ok', 'warn', 'fail', 'skip']),
      value: nullableText,
      detail: nullableText,
      hint: nullableText,
    }),
  ),
});

export function parsed(stdout: string): DoctorRecord {
  const record = v.parse(DoctorRecordSchema, JSON.parse(stdout));
  assert.is(
    record.ok,
    record.checks.every(({ status }) => status !== 'fail'),
  );
  for (const each of record.checks.filter(isBad)) assert.ok(each.hint, `${each.name} says no mend`);
  return record;
}

/** Runs doctor, whose exit code must agree with its record. */
export async function examine(
  home: Home,
  env: Readonly<Record<string, string>> = {},
  timeoutMs?: number,
): Promise<DoctorRecord> {
  const { stdout, code } = await svc(['doctor', '--json'], { home, env, ...given({ timeoutMs }) });
  const record = parsed(stdout);
  assert.is(code, record.ok ? 0 : 1);
  return record;
}
