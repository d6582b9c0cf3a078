/**
 * A plot over time. The drawing is for the eye; the caption has the newest value of each line as text, which screen
 * readers and the keyboard reach.
 */
import type { JSX } from 'preact';
import { useEffect, useRef } from 'preact/hooks';
import uPlot from 'uplot';
import { theme } from '../state/theme.ts';
import { NONE } from '../parts/format.ts';
import type { Series } from './series.ts';

interface Props {
  readonly title: string;
  /** Seconds since 1970. */
  readonly times: readonly number[];
  readonly series: readonly Series[];
  format(value: number): string;
}

const COLOURS = 6;
const HEIGHT_REM = 9;

export function Plot({ title, times, series, format }: Props): JSX.Element {
  const place = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot | null>(null);
  const names = series.map(({ name }) => name).join('\n');
  const colours = theme.value;
  const data = [times, ...series.map(({ values }) => values)] as uPlot.AlignedData;
  const newest = useRef(data);
  newest.current = data;

  // The lines are given to a plot when it is made; so are its colours.
  useEffect(() => {
    const element = place.current;
    if (element === null) return;
    const made = new uPlot(optionsOf(element, names.split('\n'), format), newest.current, element);
    plot.current = made;
    const observer = new ResizeObserver(() => made.setSize(sizeOf(element)));
    observer.observe(element);
    return () => {
      observer.disconnect();
      made.destroy();
      plot.current = null;
    };
  }, [names, colours]);
  useEffect(() => plot.current?.setData(newest.current), [times.at(-1), names, colours]);

  return (
    <figure class="card plot" data-samples={times.length}>
      <figcaption>
        <h2>{title}</h2>
        <ul class="legend">
          {series.map(({ name, values }, index) => (
            <li key={name} class={`series-${(index % COLOURS) + 1}`}>
              {name} <b>{shown(values.at(-1), format)}</b>
            </li>
          ))}
        </ul>
      </figcaption>
      <div ref={place} class="plot-place" aria-hidden="true" />
    </figure>
  );
}

function shown(value: number | null | undefined, format: (value: number) => string): string {
  return value === null || value === undefined ? NONE : format(value);
}

function sizeOf(element: HTMLElement): { width: number; height: number } {
  return { width: Math.max(120, element.clientWidth), height: HEIGHT_REM * rem() };
}

function rem(): number {
  return parseFloat(getComputedStyle(document.documentElement).fontSize);
}

function optionsOf(element: HTMLElement, names: readonly string[], format: (value: number) => string): uPlot.Options {
  const style = getComputedStyle(element);
  const colour = (name: string): string => style.getPropertyValue(name);
  const axis = {
    stroke: colour('--muted'),
    font: `${0.6875 * rem()}px ${colour('--sans')}`,
    grid: { stroke: colour('--line'), width: 1 },
    ticks: { show: false },
  };
  return {
    ...sizeOf(element),
    legend: { show: false },
    cursor: { show: false },
    padding: [8, 8, 0, 0],
    scales: { y: { range: (_, low, high) => [Math.min(0, low), high > 0 ? high * 1.1 : 1] } },
    axes: [
      { ...axis, space: 5 * rem(), size: 1.6 * rem(), values: (_, times) => times.map(timeOfDay) },
      { ...axis, space: 2 * rem(), size: 4 * rem(), values: (_, values) => values.map(format) },
    ],
    series: [
      {},
      ...names.map((name, index) => ({
        label: name,
        stroke: colour(`--series-${(index % COLOURS) + 1}`),
        width: 2,
        points: { show: false },
      })),
    ],
  };
}

function timeOfDay(seconds: number): string {
  return new Date(seconds * 1000).toLocaleTimeString('en-GB');
}
