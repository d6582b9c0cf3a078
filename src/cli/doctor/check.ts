import { SvcError } from '../../protocol/errors.ts';
import type { DoctorCheck } from '../../protocol/records.ts';

interface More {
  readonly detail?: string | null;
  readonly hint?: string | null;
}

export function check(
  name: string,
  status: DoctorCheck['status'],
  value: string | null,
  { detail = null, hint = null }: More = {},
): DoctorCheck {
  return { name, status, value, detail, hint };
}

/** A check that ended with an error. */
export function failed(name: string, thrown: unknown, value: string | null = null): DoctorCheck {
  const error = SvcError.from(thrown);
  return check(name, 'fail', value, { detail: error.message, hint: error.hint ?? null });
}
