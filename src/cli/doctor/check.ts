import type { CheckName, DoctorCheck } from '../../protocol/doctor.ts';
import { SvcError } from '../../protocol/errors.ts';

interface More {
  readonly detail?: string | null;
  readonly hint?: string | null;
}

export function check(
  name: CheckName,
  status: DoctorCheck['status'],
  value: string | null,
  { detail = null, hint = null }: More = {},
): DoctorCheck {
  return { name, status, value, detail, hint };
}

/** A check that ended with an error. */
export function failed(name: CheckName, thrown: unknown, value: string | null = null): DoctorCheck {
  const error = SvcError.from(thrown);
  return check(name, 'fail', value, { detail: error.message, hint: error.hint ?? 'see docs/doctor.md' });
}

/** A check that was not made, and why. */
export function skipped(name: CheckName, detail: string, value: string | null = null): DoctorCheck {
  return check(name, 'skip', value, { detail });
}
