/** Renders results for docs/benchmarks.md: medians, ranges, ratios, and targets. */
import type { Result, Results } from './results.ts';
import { median, type Bar, type Figure } from './scenario.ts';
import type { ServerName } from './servers/server.ts';

const SVC: ServerName = 'svc';

interface Line {
  readonly model: string;
  readonly what: string;
  readonly cells: readonly string[];
  /** null: no target. */
  readonly isReached: boolean | null;
}

export function report(all: Results): string {
  const { heading, machine, startedAt, repetitions, commands, planned, seconds, results } = all;
  const left = planned - results.length;
  return [
    `## ${heading}`,
    '',
    '`npm run bench:peers` builds `llama-server` from the bundled source and creates models with real shapes and vocabularies and random weights. All',
    'programs load the same file with the same number of threads and KV-cache cells, and defaults otherwise. They take turns,',
    `${String(repetitions)} times each; memory and prompts of 31,000 tokens are measured once. Clients use HTTP with streaming. Figures are medians, with the minimum and maximum in brackets. A ratio is svc divided by the`,
    'other program, as the median over the repetitions. Machines are noisy, so only figures of one run are compared.',
    '',
    `Machine: ${machine}. ${startedAt.slice(0, 10)}, ${(seconds / 60).toFixed(0)} minutes.`,
    ...(left > 0 ? ['', `**The run was cut off: ${String(left)} of ${String(planned)} scenarios are missing.**`] : []),
    '',
    ...commands.map((command) => `    ${command}`),
    '',
    ...tables(results),
  ].join('\n');
}

/** The number of targets reached, those that are not, and a table for each model. */
export function tables(results: readonly Result[]): string[] {
  const lines = results.flatMap((result) => result.figures.flatMap((figure, index) => linesOf(result, figure, index)));
  const bars = lines.filter(({ isReached }) => isReached !== null);
  const missed = bars.filter(({ isReached }) => isReached !== true);
  return [
    `**${String(bars.length - missed.length)} of ${String(bars.length)} bars reached.**`,
    ...missed.map(({ model, what }) => `- missed: ${model}, ${what}`),
    '',
    ...[...new Set(results.map(({ model }) => model))].flatMap((model) => [
      `### ${model}`,
      '',
      '| scenario | svc | compared with | its figure | ratio | target | |',
      '|---|---|---|---|---|---|---|',
      ...lines.filter((line) => line.model === model).map(({ cells }) => `| ${cells.join(' | ')} |`),
      '',
      ...results.filter((result) => result.model === model).flatMap(failures),
    ]),
  ];
}

/** Returns a line for each server that svc is compared with, and one if svc has a target of its own or is alone. */
function linesOf({ model, scenario, measured }: Result, figure: Figure, index: number): Line[] {
  const values = (server: ServerName): (number | null)[] => {
    const own = measured.filter((each) => each.server === server).sort((a, b) => a.repetition - b.repetition);
    return own.map(({ figures }) => figures?.[index] ?? null);
  };
  const ours = values(SVC);
  const what = `${scenario}: ${figure.name}`;
  const line = (server: ServerName | null, bar: Bar | undefined): Line => {
    const theirs = server === null ? [] : values(server);
    const ratios = known(ours.map((value, n) => quotient(value, theirs[n] ?? null)));
    const judged = server === null ? known(ours) : ratios;
    const isReached = bar === undefined ? null : reaches(median(judged), bar, figure);
    return {
      model,
      what: server === null ? what : `${what}, beside ${server}`,
      isReached,
      cells: [
        what,
        shown(known(ours), figure),
        server ?? '–',
        server === null ? '–' : shown(known(theirs), figure),
        server === null ? '–' : shownRatio(ratios),
        bar === undefined ? '–' : shownBar(bar, figure),
        isReached === null ? '' : isReached ? 'reached' : '**missed**',
      ],
    };
  };
  const others = new Set(measured.map(({ server }) => server).filter((server) => server !== SVC));
  const beside = [...others].filter((server) => values(server).some((value) => value !== null) || hasBar(server));
  function hasBar(server: ServerName): boolean {
    return figure.bars.some((bar) => 'server' in bar && bar.server === server);
  }
  const alone = figure.bars.find((bar) => 'limit' in bar);
  return [
    ...beside.map((server) =>
      line(
        server,
        figure.bars.find((bar) => 'server' in bar && bar.server === server),
      ),
    ),
    ...(alone !== undefined || beside.length === 0 ? [line(null, alone)] : []),
  ];
}

/** False for NaN: a figure that could not be measured misses its target. */
function reaches(value: number, bar: Bar, { isMoreBetter }: Figure): boolean {
  const wanted = 'limit' in bar ? bar.limit : bar.ratio;
  return isMoreBetter ? value >= wanted : value <= wanted;
}

const quotient = (ours: number | null, theirs: number | null): number | null =>
  ours === null || theirs === null ? null : ours / theirs;

const known = (values: readonly (number | null)[]): number[] => values.filter((value) => value !== null);

function shown(values: readonly number[], { unit }: Figure): string {
  if (values.length === 0) return 'failed';
  const most = Math.max(...values);
  const digits = most < 10 ? 2 : most < 100 ? 1 : 0;
  return `${spread(values, digits)}${unit === 'ratio' ? '' : ` ${unit}`}`;
}

function shownRatio(ratios: readonly number[]): string {
  return ratios.length === 0 ? '–' : spread(ratios, Math.max(...ratios) < 0.1 ? 3 : 2);
}

function spread(values: readonly number[], digits: number): string {
  const text = (value: number): string => value.toFixed(digits);
  const range = values.length === 1 ? '' : ` (${text(Math.min(...values))}–${text(Math.max(...values))})`;
  return `${text(median(values))}${range}`;
}

function shownBar(bar: Bar, { isMoreBetter, unit }: Figure): string {
  const sign = isMoreBetter ? '≥' : '≤';
  if ('limit' in bar) return `${sign} ${String(bar.limit)}${unit === 'ratio' ? '' : ` ${unit}`}`;
  return `${sign} ${bar.ratio < 0.1 ? bar.ratio.toFixed(3) : String(bar.ratio)} ×`;
}

function failures({ scenario, measured }: Result): string[] {
  const failed = measured.filter(({ error }) => error !== null);
  if (failed.length === 0) return [];
  return [...new Set(failed.map(({ server }) => server))].map((server) => {
    const own = failed.filter((each) => each.server === server);
    const turns = measured.filter((each) => each.server === server).length;
    return `- ${scenario}: ${server} failed in ${String(own.length)} of ${String(turns)} turns: ${own[0]?.error ?? ''}\n`;
  });
}
