import type { JSX } from 'preact';
import type { HealthRecord } from '../../../src/protocol/records.ts';
import { bytes, count, duration, moment } from '../parts/format.ts';
import { health } from '../state/connection.ts';
import { Check } from './check.tsx';
import { DoctorView } from './doctor-view.tsx';

export function HealthView(): JSX.Element {
  const record = health.value;
  return (
    <div class="page">
      <h1>Health</h1>
      {record === null ? <p class="muted">Not read yet.</p> : <Summary record={record} />}
      <DoctorView />
      {record !== null && <Parts record={record} />}
    </div>
  );
}

function Summary({ record }: { readonly record: HealthRecord }): JSX.Element {
  const { state, reason, version, pid, uptime_seconds, resources } = record;
  return (
    <>
      <p class="lead">
        <span class={`badge ${state === 'READY' ? 'ok' : 'warn'}`}>{state.toLowerCase()}</span>{' '}
        {reason ?? 'Everything works.'}
      </p>
      <p class="muted figures">
        svc {version} · process {pid} · up for {duration(uptime_seconds * 1000)} · {bytes(resources.rss_bytes)} of
        memory, {bytes(resources.system_memory_available_bytes)} free
      </p>
    </>
  );
}

function Parts({ record: { conditions, models, providers } }: { readonly record: HealthRecord }): JSX.Element {
  return (
    <>
      <h2>Conditions</h2>
      <ul class="checks">
        {conditions.map(({ name, status, reason: why, since }) => (
          <Check key={name} name={name.replaceAll('_', ' ')} status={status} detail={why}>
            since {moment(since)}
          </Check>
        ))}
      </ul>
      {models.length > 0 && <h2>Engines</h2>}
      <ul class="checks">
        {models.map(({ id, state: loaded, pid: process, rss_bytes, active, waiting }) => (
          <Check
            key={id}
            name={id}
            status={loaded === 'failed' ? 'fail' : loaded === 'loading' ? 'warn' : 'ok'}
            word={loaded}
            detail={`${bytes(rss_bytes)} of memory, ${count(active)} running, ${count(waiting)} waiting`}
          >
            process {process ?? '–'}
          </Check>
        ))}
      </ul>
      {providers.length > 0 && <h2>Providers</h2>}
      <ul class="checks">
        {providers.map(({ name, state: reached, reason: why, last_checked_at }) => (
          <Check
            key={name}
            name={name}
            status={reached === 'unhealthy' ? 'fail' : reached === 'healthy' ? 'ok' : 'skip'}
            word={reached}
            detail={why}
          >
            {last_checked_at === null ? 'not asked yet' : `asked ${moment(last_checked_at)}`}
          </Check>
        ))}
      </ul>
    </>
  );
}
