import type { JSX } from 'preact';
import { useState } from 'preact/hooks';
import { HTTP_ROUTES } from '../../../src/protocol/routes.ts';
import type { UsageRecord } from '../../../src/protocol/usage.ts';
import { count, short } from '../parts/format.ts';
import { Problem } from '../parts/problem.tsx';
import { useAnswer } from '../parts/use-answer.ts';
import { byDay, byModel } from './summed.ts';

const SPANS = [7, 30, 90] as const;

export function UsageView(): JSX.Element {
  const [days, setDays] = useState<number>(30);
  const { answer, error } = useAnswer<{ readonly usage: readonly UsageRecord[] }>(
    `${HTTP_ROUTES.runtimeUsage}?days=${days}`,
  );
  const rows = answer?.usage ?? [];
  return (
    <div class="page">
      <div class="row spread">
        <h1>Usage</h1>
        <select
          class="narrow"
          aria-label="Time span"
          value={String(days)}
          onChange={({ currentTarget }) => setDays(Number(currentTarget.value))}
        >
          {SPANS.map((span) => (
            <option key={span} value={String(span)}>
              {span} days
            </option>
          ))}
        </select>
      </div>
      {error !== null && <Problem error={error} />}
      {answer !== null && rows.length === 0 && <p class="muted">No request in this time.</p>}
      {rows.length > 0 && (
        <>
          <Days rows={rows} />
          <Models rows={rows} />
        </>
      )}
    </div>
  );
}

function Days({ rows }: { readonly rows: readonly UsageRecord[] }): JSX.Element {
  const days = byDay(rows);
  const most = Math.max(1, ...days.map(({ input_tokens, output_tokens }) => input_tokens + output_tokens));
  return (
    <section class="card">
      <h2>Tokens a day</h2>
      <ul class="bars">
        {days.map(({ name, requests, input_tokens, output_tokens }) => (
          <li key={name}>
            <span class="figures">{name}</span>
            <span class="bar" aria-hidden="true">
              <span class="bar-input" style={{ width: `${(100 * input_tokens) / most}%` }} />
              <span class="bar-output" style={{ width: `${(100 * output_tokens) / most}%` }} />
            </span>
            <span class="figures">
              {short(input_tokens)} in, {short(output_tokens)} out, {short(requests)} requests
            </span>
          </li>
        ))}
      </ul>
    </section>
  );
}

function Models({ rows }: { readonly rows: readonly UsageRecord[] }): JSX.Element {
  return (
    <div class="table-frame" tabIndex={0} role="region" aria-label="Usage by model">
      <table>
        <thead>
          <tr>
            <th scope="col">Model</th>
            {['Requests', 'Failed', 'Input tokens', 'From cache', 'Output tokens'].map((title) => (
              <th key={title} scope="col" class="number">
                {title}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {byModel(rows).map((row) => (
            <tr key={row.name}>
              <th scope="row">{row.name}</th>
              <td class="number">{count(row.requests)}</td>
              <td class="number">{count(row.failed)}</td>
              <td class="number">{count(row.input_tokens)}</td>
              <td class="number">{count(row.cached_tokens)}</td>
              <td class="number">{count(row.output_tokens)}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
