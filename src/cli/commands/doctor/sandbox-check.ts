/** Check of the sandbox of engine processes: a child enters it and attempts what it forbids. */
import { missingParts } from '../../../engine/sandbox.ts';
import { trySandbox, type TriedSandbox } from '../../../engine/try-sandbox.ts';
import type { DoctorCheck } from '../../../protocol/doctor.ts';
import { check, failed, skipped } from './check.ts';

const KERNEL_HINT =
  'use Linux 6.10 or newer with Landlock among its security modules (CONFIG_LSM, lsm=), and a container that allows landlock and seccomp';

export async function checkSandbox({ engineWorks }: { readonly engineWorks: boolean }): Promise<DoctorCheck> {
  if (process.platform !== 'linux') return skipped('sandbox', 'engine processes are sandboxed on Linux only');
  if (!engineWorks) return skipped('sandbox', 'the addon cannot be loaded');
  try {
    return judge(await trySandbox());
  } catch (error) {
    return failed('sandbox', error);
  }
}

/** An attempt that succeeds is a failure if every part is in force, and expected if a part is missing. */
export function judge({ report, attempts }: TriedSandbox): DoctorCheck {
  const missing = missingParts(report);
  const succeeded = attempts.filter(({ error }) => error === null).map(({ what }) => what);
  const able = succeeded.length === 0 ? '' : `an engine process was able ${succeeded.join(', ')}`;
  const refused = `${String(attempts.length - succeeded.length)} of ${String(attempts.length)} attempts were refused`;
  const value = report.landlockVersion === 0 ? 'no Landlock' : `Landlock ${String(report.landlockVersion)}`;
  if (missing.length > 0) {
    const lacks = `${refused}; missing: ${missing.join('; ')}`;
    return check('sandbox', 'warn', value, { detail: able === '' ? lacks : `${lacks}; ${able}`, hint: KERNEL_HINT });
  }
  if (succeeded.length > 0) {
    return check('sandbox', 'fail', value, { detail: `${refused}; ${able}`, hint: 'please report this' });
  }
  return check('sandbox', 'ok', value, { detail: refused });
}
