/** The figures as docs/benchmarks.md shows them: medians, spreads, ratios, and what was to be reached. */
import { machine } from '../page.ts';
import type { Figure } from './scenarios.ts';
import { median } from './scenarios.ts';

export interface Row {
  readonly model: string;
  readonly scenario: string;
  readonly figure: Figure;
  /** By server, one for each repetition. */
  readonly values: ReadonlyMap<string, readonly number[]>;
}

export interface Facts {
  readonly commands: readonly string[];
  readonly repetitions: number;
  readonly livez: { readonly p99: number; readonly count: number } | null;
}

export function report(rows: readonly Row[], { commands, repetitions, livez }: Facts): string {
  const lines = [
    '## Beside llama-server',
    '',
    '`npm run bench:peers` builds `llama-server` from the same source, makes models (real shapes and',
    'vocabularies, random weights), starts all programs on the same file with the same threads and context, each with its own defaults otherwise, and',
    `lets them take turns, ${String(repetitions)} times. Clients speak HTTP with streaming. A figure is the median; in brackets the least and the most. A ratio is ours by`,
    'theirs, the median over the repetitions; machines are noisy, so only what was measured in one run is compared.',
    '',
    `Machine: ${machine()}.`,
    '',
    ...commands.map((command) => `    ${command}`),
    '',
  ];
  for (const model of new Set(rows.map((row) => row.model))) {
    lines.push(`### ${model}`, '', '| scenario | svc | others | ratio | to be reached |', '|---|---|---|---|---|');
    for (const row of rows.filter((each) => each.model === model)) lines.push(line(row));
    lines.push('');
  }
  if (livez !== null) {
    lines.push(
      `\`/livez\`, asked ${livez.count.toLocaleString('en-US')} times while all of this ran: p99 ${livez.p99.toFixed(1)} ms (to be reached: below 20).`,
      '',
    );
  }
  return lines.join('\n');
}

function line({ scenario, figure, values }: Row): string {
  const ours = values.get('svc') ?? [];
  const others = [...values].filter(([server]) => server !== 'svc');
  const must = figure.must ?? [];
  const ratios = others.map(([server, theirs]) => {
    const ratio = median(ours.map((value, index) => value / (theirs[index] ?? NaN)));
    const bar = must.find((each) => each.server === server);
    const holds = bar === undefined || (figure.isMoreBetter ? ratio >= bar.ratio : ratio <= bar.ratio);
    return { server, shown: `${ratio < 0.1 ? ratio.toFixed(3) : ratio.toFixed(2)}${holds ? '' : ' **missed**'}` };
  });
  const sign = figure.isMoreBetter ? '≥' : '≤';
  return `| ${[
    `${scenario}: ${figure.name}`,
    shown(ours, figure),
    others.map(([server, theirs]) => `${server}: ${shown(theirs, figure)}`).join('<br>') || '–',
    ratios.map(({ shown: ratio }) => ratio).join('<br>') || '–',
    must
      .map(({ server, ratio }) => `${sign} ${ratio < 0.1 ? ratio.toFixed(3) : String(ratio)} × ${server}`)
      .join('<br>') || '–',
  ].join(' | ')} |`;
}

function shown(values: readonly number[], { unit }: Figure): string {
  if (values.length === 0) return '–';
  const digits = Math.max(...values) < 10 ? 2 : Math.max(...values) < 100 ? 1 : 0;
  const text = (value: number): string => value.toFixed(digits);
  return `${text(median(values))} ${unit === 'ratio' ? '' : unit} (${text(Math.min(...values))}–${text(Math.max(...values))})`.replace(
    '  ',
    ' ',
  );
}
