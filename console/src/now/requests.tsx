/** Requests that run or wait, with a button that ends each. */
import type { JSX } from 'preact';
import { useState } from 'preact/hooks';
import type { LiveRequest } from '../../../src/protocol/live.ts';
import { HTTP_ROUTES } from '../../../src/protocol/routes.ts';
import { ApiError } from '../api/api-error.ts';
import { ask } from '../api/request.ts';
import { announce } from '../parts/announcer.tsx';
import { count, duration, NONE, modelName } from '../parts/format.ts';
import { Problem } from '../parts/problem.tsx';
import { show } from '../state/view.ts';

interface Props {
  readonly requests: readonly LiveRequest[];
  /** Time of the sample. */
  readonly time: string;
}

export function Requests({ requests, time }: Props): JSX.Element {
  const [error, setError] = useState<ApiError | null>(null);
  const cancel = async (id: string): Promise<void> => {
    try {
      await ask(HTTP_ROUTES.runtimeCancel, { body: { id } });
      announce('Request cancelled');
      setError(null);
    } catch (thrown) {
      setError(ApiError.from(thrown));
    }
  };
  if (requests.length === 0) return <p class="muted">No request runs.</p>;
  return (
    <>
      {error !== null && <Problem error={error} />}
      <div class="table-frame" tabIndex={0} role="region" aria-label="Running requests">
        <table>
          <thead>
            <tr>
              <th scope="col">Model</th>
              <th scope="col">Kind</th>
              <th scope="col">Key</th>
              <th scope="col">State</th>
              <th scope="col" class="number">
                Since
              </th>
              <th scope="col" class="number">
                Tokens
              </th>
              <th scope="col">
                <span class="unseen">Actions</span>
              </th>
            </tr>
          </thead>
          <tbody>
            {requests.map((each, index) => (
              <Row key={`${each.id} ${index}`} request={each} time={time} onCancel={() => void cancel(each.id)} />
            ))}
          </tbody>
        </table>
      </div>
    </>
  );
}

interface RowProps {
  readonly request: LiveRequest;
  readonly time: string;
  onCancel(): void;
}

function Row({ request, time, onCancel }: RowProps): JSX.Element {
  const { id, kind, key, state, started, output_tokens } = request;
  const model = modelName(request);
  return (
    <tr>
      <th scope="row">{model}</th>
      <td>{kind}</td>
      <td>{key ?? NONE}</td>
      <td>
        <span class={`badge ${state}`}>{state}</span>
      </td>
      <td class="number">{duration(Math.max(0, Date.parse(time) - Date.parse(started)))}</td>
      <td class="number">{count(output_tokens)}</td>
      <td class="number">
        <button type="button" class="quiet small" onClick={() => show('logs', { request: id })}>
          Logs
        </button>{' '}
        <button type="button" class="small" aria-label={`Cancel the request to ${model}`} onClick={onCancel}>
          Cancel
        </button>
      </td>
    </tr>
  );
}
