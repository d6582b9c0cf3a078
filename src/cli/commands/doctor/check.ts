import { errorOfFiles } from '../../../files/svc-error.ts';
import type { CheckName, DoctorCheck } from '../../../protocol/doctor.ts';

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

/** Returns a failed check from the error that ended it. */
export function failed(name: CheckName, thrown: unknown, value: string | null = null): DoctorCheck {
  const error = errorOfFiles(thrown);
  return check(name, 'fail', value, {
    detail: error.message,
    hint: error.hint ?? 'the log may have the cause: svc logs',
  });
}

/** Runs a check; an error makes this check fail and does not stop the others. */
export async function guarded(name: CheckName, make: () => DoctorCheck | Promise<DoctorCheck>): Promise<DoctorCheck> {
  try {
    return await make();
  } catch (error) {
    return failed(name, error);
  }
}

/** Returns a skipped check, with the reason. */
export function skipped(name: CheckName, detail: string, value: string | null = null): DoctorCheck {
  return check(name, 'skip', value, { detail });
}
