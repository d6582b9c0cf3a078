/** All checks of `svc doctor`, run when asked: some of them start processes. */
import type { JSX } from 'preact';
import { useState } from 'preact/hooks';
import type { DoctorRecord } from '../../../src/protocol/doctor.ts';
import { HTTP_ROUTES } from '../../../src/protocol/routes.ts';
import { ApiError } from '../api/api-error.ts';
import { ask } from '../api/request.ts';
import { announce } from '../parts/announcer.tsx';
import { plural } from '../parts/format.ts';
import { Problem } from '../parts/problem.tsx';
import { Check } from './check.tsx';

/** Those that need the reader first. */
const ORDER = ['fail', 'warn', 'ok', 'skip'] as const;

export function DoctorView(): JSX.Element {
  const [record, setRecord] = useState<DoctorRecord | null>(null);
  const [error, setError] = useState<ApiError | null>(null);
  const [isRunning, setRunning] = useState(false);
  const run = async (): Promise<void> => {
    setRunning(true);
    setError(null);
    try {
      const found = await ask<DoctorRecord>(HTTP_ROUTES.runtimeDoctor);
      setRecord(found);
      announce(summaryOf(found));
    } catch (thrown) {
      setError(ApiError.from(thrown));
    }
    setRunning(false);
  };
  return (
    <>
      <div class="row spread">
        <h2>Doctor</h2>
        <button type="button" disabled={isRunning} onClick={() => void run()}>
          {isRunning ? 'Checking…' : 'Run all checks'}
        </button>
      </div>
      {error !== null && <Problem error={error} />}
      {record === null ? (
        <p class="muted">Checks this machine as svc doctor does, and says how to fix what it finds.</p>
      ) : (
        <>
          <p>{summaryOf(record)}</p>
          <ul class="checks">
            {sorted(record).map(({ name, status, value, detail, hint }) => (
              <Check key={name} name={name.replaceAll('_', ' ')} status={status} detail={detail} hint={hint}>
                {value}
              </Check>
            ))}
          </ul>
        </>
      )}
    </>
  );
}

function sorted({ checks }: DoctorRecord): DoctorRecord['checks'] {
  return checks.toSorted((a, b) => ORDER.indexOf(a.status) - ORDER.indexOf(b.status));
}

function summaryOf({ checks }: DoctorRecord): string {
  const wrong = checks.filter(({ status }) => status === 'fail' || status === 'warn').length;
  return wrong === 0 ? 'No problem found.' : `${plural(wrong, 'check needs', 'checks need')} attention.`;
}
