/** Formats the rows for the terminal and for docs/reliability.md. */
import { createHash } from 'node:crypto';
import { cpus, loadavg, release, totalmem, type as system } from 'node:os';
import type { Commit } from './commit.ts';
import { FAULTS, sourceOf } from './faults.ts';
import type { Row } from './judge.ts';

const GIB = 1024 ** 3;
const COLUMNS = [
  'fault',
  'how it was planted',
  'what the user saw',
  'mended',
  'seconds to recovery',
  'limit',
  'requests',
  'ended with an error',
  'lost',
  'verdict',
  'digest',
] as const;

/** Cells of a row of the page, by column. */
export type Cells = Readonly<Record<(typeof COLUMNS)[number], string>>;

export function describe({ fault, verdict, problems, recoverySeconds, requests }: Row): string {
  const heading = { passed: 'ok     ', failed: 'FAIL   ', skipped: 'skipped' }[verdict];
  const figures = [
    ...(recoverySeconds === null ? [] : [`${recoverySeconds.toFixed(2)} s`]),
    ...(requests.sent === 0
      ? []
      : [`${requests.sent} requests, ${failures(requests)} failed, ${requests.lost.length} lost`]),
  ];
  const after = figures.length === 0 ? '' : ` (${figures.join('; ')})`;
  return [`${heading} ${fault.name}${after}`, ...problems.map((problem) => `        ${problem}`)].join('\n');
}

/** Returns the whole of docs/reliability.md from a run of all faults. */
export function page(rows: readonly Row[], seconds: number, commit: Commit): string {
  const lines = new Map(rows.map((row) => [row.fault.name, line(row)]));
  return write(lines, [`Measured on ${machine()}, in ${String(Math.round(seconds))} s, at ${described(commit)}.`]);
}

/** Returns the page `text` with the rows of some faults replaced. Throws if a fault has no row afterwards. */
export function updatedPage(text: string, rows: readonly Row[], commit: Commit): string {
  const lines = new Map(readPage(text).map((cells) => [cells.fault, written(cells)]));
  for (const row of rows) lines.set(row.fault.name, line(row));
  const names = rows.map(({ fault }) => fault.name).join('; ');
  const measured = text.split('\n').filter((each) => each.startsWith('Measured '));
  return write(lines, [...measured, `Measured again on ${machine()}, at ${described(commit)}: ${names}.`]);
}

/** Returns a row that passed as failed if the user saw other texts, numbers aside, than the page `text` has. */
export function compared(row: Row, text: string): Row {
  const documented = readPage(text).find(({ fault }) => fault === row.fault.name)?.['what the user saw'];
  const withoutNumbers = (saw: string): string => saw.replaceAll(/\d+/g, 'N');
  if (row.verdict !== 'passed' || documented === undefined) return row;
  if (withoutNumbers(documented) === withoutNumbers(escaped(row.saw))) return row;
  const problem = `the user saw something else than docs/reliability.md has, measure it again with --page: ${row.saw}`;
  return { ...row, verdict: 'failed', problems: [problem] };
}

/** Returns the rows of a page in order. */
export function readPage(text: string): Cells[] {
  return text
    .slice(text.indexOf(`| ${COLUMNS[0]} | ${COLUMNS[1]} |`))
    .split('\n')
    .slice(2)
    .filter((each) => each.startsWith('| '))
    .map((each) => each.slice(2, -2).split(/(?<!\\) \| /))
    .map((cells) => Object.fromEntries(COLUMNS.map((column, at) => [column, cells[at] ?? ''])) as unknown as Cells);
}

function write(lines: ReadonlyMap<string, string>, measured: readonly string[]): string {
  const rows = FAULTS.map(({ name }) => {
    const found = lines.get(name);
    if (found === undefined) throw new Error(`docs/reliability.md has no row of "${name}": plant it too`);
    return found;
  });
  const count = (verdict: Row['verdict']): string =>
    `${String(rows.filter((row) => verdictOf(row).startsWith(verdict)).length)} ${verdict}`;
  return `${INTRODUCTION}
${measured.join('\n')}

${count('passed')}, ${count('failed')}, ${count('skipped')}: could not be planted there.

| ${COLUMNS.join(' | ')} |
|${'---|'.repeat(COLUMNS.length)}
${rows.join('\n')}
`;
}

function verdictOf(row: string): string {
  return row.slice(2, -2).split(/(?<!\\) \| /)[COLUMNS.indexOf('verdict')] ?? '';
}

/** Digest of a row's other cells and of the file that declares its fault: both are as they were when it was measured. */
export function digestOf(cells: Omit<Cells, 'digest'>): string {
  const measured = COLUMNS.filter((column) => column !== 'digest').map((column) => cells[column]);
  const hash = createHash('sha256').update(sourceOf(cells.fault) ?? '');
  return hash.update(JSON.stringify(measured)).digest('hex').slice(0, 8);
}

function machine(): string {
  const [processor] = cpus();
  return [
    `${String(cpus().length)} × ${processor?.model ?? 'an unknown processor'}`,
    `${String(Math.round(totalmem() / GIB))} GiB`,
    `${system()} ${release()}`,
    `Node ${process.version}`,
    `load average ${(loadavg()[0] ?? 0).toFixed(1)} at the end`,
  ].join(', ');
}

/** Describes a commit by its subject, because a rebase changes the hash. */
function described({ subject, date, isChanged }: Commit): string {
  return `the commit “${subject}” of ${date}${isChanged ? ' with changes that were not committed' : ''}`;
}

const INTRODUCTION = `# Reliability

What happens when something goes wrong. \`npm run chaos\` plants every fault below into a real daemon with real engine
processes, real models and real sockets, checks what must hold, and writes this page; nothing on it is written by hand.

Each fault has its own daemon, home and ports, and is planted from outside, as a person, another program or the machine
would cause it. Afterwards the daemon must be READY, and no process of the home may be left once the daemon is stopped.

| column | meaning |
|---|---|
| what the user saw | answer or error that the user got; compared with what the fault declares |
| mended | what ended the fault: svc by itself, or an action of a person |
| seconds to recovery | time from planting (from the person's action, if one is needed) until a new request is answered; tried every 20 ms, so 0.01 means that no request noticed it |
| limit | maximum recovery time in seconds on a quiet machine; scaled up on a machine on which commands take longer |
| requests | requests sent during the fault, by the affected client and, under load, by three other clients |
| ended with an error | number of those that were refused or ended with an error that says what happened; only errors that the fault declares are allowed |
| lost | number of those that ended with neither an answer nor an error |
| verdict | passed if everything that the fault declares held, within its limit |
| digest | of the rest of the row and the file that declares the fault; it shows that both are as they were when the row was measured |

How the page stays true:

- \`npm test\` compares it with the faults: names, how they are planted, who mends them, limits, what the user must see,
  and which requests may fail. It also fails if a row was edited, or the file that declares its fault, or if a text that
  the user saw is no longer in the source of svc. Such rows are measured again:
  \`npm run chaos -- --only PATTERN --page\`; \`npm run chaos\` measures all of them.
- Times and counts are those of the commits below; other changes of svc do not make them out of date. \`.ci/run\` plants a
  third of the faults, a different third at each commit, and fails if one does not hold, or if the user sees another
  text than its row has.
- Deadlines are conditions, not times: faults hold on a busy machine, too, and two at a time (\`--jobs 2\`).

Two things cannot be saved. If the daemon itself is killed, its answers are cut off, and no process is left to report it
(if it stops, a connection that the kernel has accepted but the daemon has not may be reset). If an engine dies after the
first text of an answer, that answer ends with an error, because a retry might give another text; before the first text
the request is retried, invisibly to its client.
`;

function line(row: Row): string {
  const { fault, verdict, problems, saw, recoverySeconds, requests } = row;
  const isPlanted = verdict !== 'skipped';
  const isCounted = isPlanted && requests.sent > 0;
  const why = problems.length === 0 ? '' : `: ${problems.join('; ')}`;
  const cells = {
    fault: fault.name,
    'how it was planted': escaped(fault.planted),
    'what the user saw': saw === '' ? '–' : escaped(saw),
    mended: fault.mended,
    'seconds to recovery': recoverySeconds === null ? '–' : recoverySeconds.toFixed(2),
    limit: String(fault.withinSeconds),
    requests: isCounted ? String(requests.sent) : '–',
    'ended with an error': isCounted ? String(failures(requests)) : '–',
    lost: isCounted ? String(requests.lost.length) : '–',
    verdict: `${verdict}${escaped(why)}`,
  };
  return written({ ...cells, digest: digestOf(cells) });
}

function written(cells: Cells): string {
  return `| ${COLUMNS.map((column) => cells[column]).join(' | ')} |`;
}

function escaped(text: string): string {
  return text.replaceAll('|', '\\|');
}

function failures({ failed }: Row['requests']): number {
  return [...failed.values()].reduce((sum, count) => sum + count, 0);
}
