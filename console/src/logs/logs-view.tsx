import type { JSX } from 'preact';
import { useEffect, useState } from 'preact/hooks';
import { LOG_LEVELS, type LogLevel } from '../../../src/protocol/logs.ts';
import { CopyButton } from '../parts/copy-button.tsx';
import { count } from '../parts/format.ts';
import { Icon } from '../parts/icon.tsx';
import { Problem } from '../parts/problem.tsx';
import { epoch } from '../state/connection.ts';
import { viewParameters } from '../state/view.ts';
import {
  followLog,
  levelFilter,
  lineCount,
  logError,
  requestFilter,
  shownLines,
  textFilter,
  type LogLine,
} from './log-lines.ts';
import { LogList } from './log-list.tsx';

export function LogsView(): JSX.Element {
  const [chosen, setChosen] = useState<number | null>(null);
  const round = epoch.value;
  useEffect(() => {
    const gone = new AbortController();
    void followLog(gone.signal);
    return () => gone.abort();
  }, [round]);
  const request = viewParameters.value.get('request');
  useEffect(() => {
    if (request !== null) requestFilter.value = request;
  }, [request]);
  const lines = shownLines.value;
  const line = lines.find(({ number }) => number === chosen);
  return (
    <div class="page logs">
      <div class="row spread">
        <h1>Logs</h1>
        <span class="muted figures">
          {lines.length === lineCount.value
            ? `${count(lines.length)} lines`
            : `${count(lines.length)} of ${count(lineCount.value)} lines`}
        </span>
      </div>
      <Filters />
      {logError.value !== null && <Problem error={logError.value} />}
      <LogList lines={lines} chosen={chosen} onChoose={setChosen} />
      {line !== undefined && <Detail line={line} onClose={() => setChosen(null)} />}
    </div>
  );
}

function Filters(): JSX.Element {
  return (
    <div class="filters">
      <input
        type="search"
        aria-label="Text in the lines"
        placeholder="Filter by text"
        data-focus="main"
        value={textFilter.value}
        onInput={({ currentTarget }) => (textFilter.value = currentTarget.value)}
      />
      <input
        type="search"
        aria-label="Id of a request"
        placeholder="Request id"
        spellcheck={false}
        value={requestFilter.value}
        onInput={({ currentTarget }) => (requestFilter.value = currentTarget.value)}
      />
      <select
        aria-label="Least level"
        value={levelFilter.value}
        onChange={({ currentTarget }) => (levelFilter.value = currentTarget.value as LogLevel)}
      >
        {LOG_LEVELS.map((level) => (
          <option key={level} value={level}>
            {level === 'trace' ? 'All levels' : `${level} and worse`}
          </option>
        ))}
      </select>
    </div>
  );
}

function Detail({ line: { record }, onClose }: { readonly line: LogLine; onClose(): void }): JSX.Element {
  const text = JSON.stringify(record, null, 2);
  return (
    <section class="card log-detail" aria-label="Chosen line">
      <div class="card-head">
        <h2>{record.msg}</h2>
        <span class="row">
          <CopyButton text={text} label="line" />
          <button type="button" class="quiet small" aria-label="Close the line" onClick={onClose}>
            <Icon name="close" />
          </button>
        </span>
      </div>
      <pre tabIndex={0} role="region" aria-label="Fields of the line">
        {text}
      </pre>
    </section>
  );
}
