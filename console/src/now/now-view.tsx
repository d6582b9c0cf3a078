import type { JSX } from 'preact';
import { useEffect, useMemo } from 'preact/hooks';
import { bytes, count, duration, rate, short } from '../parts/format.ts';
import { Problem } from '../parts/problem.tsx';
import { epoch } from '../state/connection.ts';
import { liveError, readLive, samples } from './live.ts';
import { Plot } from './plot.tsx';
import { Requests } from './requests.tsx';
import { ofAll, ofEngines, ofProviders, sum, timesOf } from './series.ts';

export function NowView(): JSX.Element {
  const round = epoch.value;
  useEffect(() => {
    const gone = new AbortController();
    void readLive(gone.signal);
    return () => gone.abort();
  }, [round]);
  const newest = samples.value.at(-1);
  return (
    <div class="page">
      <h1>Now</h1>
      {liveError.value !== null && <Problem error={liveError.value} />}
      {newest === undefined ? (
        <p class="muted">Waiting for the first figures…</p>
      ) : (
        <>
          <dl class="tiles">
            <Tile
              name="Generating"
              value={rate(sum([...newest.engines, ...newest.providers].map((each) => each.tokens_per_second)))}
            />
            <Tile name="Running" value={count(newest.queue.running)} />
            <Tile name="Waiting" value={count(newest.queue.waiting)} />
            <Tile name="Up for" value={duration(newest.daemon.uptime_s * 1000)} />
          </dl>
          <h2>Requests</h2>
          <Requests requests={newest.requests} time={newest.time} />
          <Plots />
        </>
      )}
    </div>
  );
}

function Tile({ name, value }: { readonly name: string; readonly value: string }): JSX.Element {
  return (
    <div class="card tile">
      <dt class="muted">{name}</dt>
      <dd>{value}</dd>
    </div>
  );
}

function Plots(): JSX.Element {
  const all = samples.value;
  const lines = useMemo(
    () => ({
      speed: [
        ...ofEngines(all, (each) => each.tokens_per_second),
        ...ofProviders(all, (each) => each.tokens_per_second),
      ],
      prompts: ofEngines(all, (each) => each.prompt_tokens_per_second),
      first: [...ofEngines(all, (each) => each.ttft_ms), ...ofProviders(all, (each) => each.ttft_ms)],
      queue: [ofAll(all, 'running', ({ queue }) => queue.running), ofAll(all, 'waiting', ({ queue }) => queue.waiting)],
      cells: ofEngines(all, (each) => each.cache_cells_used),
      memory: [
        ofAll(all, 'daemon', ({ daemon }) => daemon.memory_bytes),
        ...ofEngines(all, (each) => each.memory_bytes),
      ],
    }),
    [all],
  );
  const times = timesOf(all);
  const milliseconds = (value: number): string => duration(Math.round(value));
  return (
    <div class="plots">
      <Plot title="Generated tokens per second" times={times} series={lines.speed} format={short} />
      <Plot title="Prompt tokens per second" times={times} series={lines.prompts} format={short} />
      <Plot title="Time to first token" times={times} series={lines.first} format={milliseconds} />
      <Plot title="Queue" times={times} series={lines.queue} format={short} />
      <Plot title="Cache cells in use" times={times} series={lines.cells} format={short} />
      <Plot title="Memory" times={times} series={lines.memory} format={bytes} />
    </div>
  );
}
