/** The rows, as lines of a terminal and as docs/reliability.md. */
import { cpus, loadavg, release, totalmem, type as system } from 'node:os';
import type { Commit } from './commit.ts';
import { FAULTS } from './faults.ts';
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
] as const;

/** A row of the page, by column. */
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

/** All of docs/reliability.md, from a run of all faults. */
export function page(rows: readonly Row[], seconds: number, commit: Commit): string {
  const lines = new Map(rows.map((row) => [row.fault.name, line(row)]));
  return write(lines, [`Measured on ${machine()}, in ${String(Math.round(seconds))} s, at ${described(commit)}.`]);
}

/** `text`, a page, with other rows for some faults. Throws when a fault has no row then. */
export function updatedPage(text: string, rows: readonly Row[], commit: Commit): string {
  const lines = new Map(readPage(text).map((cells) => [cells.fault, written(cells)]));
  for (const row of rows) lines.set(row.fault.name, line(row));
  const names = rows.map(({ fault }) => fault.name).join('; ');
  const measured = text.split('\n').filter((each) => each.startsWith('Measured '));
  return write(lines, [...measured, `Measured again on ${machine()}, at ${described(commit)}: ${names}.`]);
}

/** The rows of a page in their order. */
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
  return row.slice(2, -2).split(/(?<!\\) \| /)[COLUMNS.length - 1] ?? '';
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

/** By its subject: a rebase changes the hash. */
function described({ subject, date, isChanged }: Commit): string {
  return `the commit “${subject}” of ${date}${isChanged ? ' with changes that were not committed' : ''}`;
}

const INTRODUCTION = `# Reliability

How svc, and its users, fare when something goes wrong. \`npm run chaos\` plants every fault below into a real daemon with real
engine processes, real models and real sockets, judges what must hold, and writes this page; nothing on it is written by hand.

Each fault has a daemon, a home and ports of its own, and is planted from outside, as a person, another program or the machine would do it.
Afterwards the daemon must be READY, and no process of the home may be left once the daemon is stopped.

| column | meaning |
|---|---|
| what the user saw | the answer or the error that the user got; compared with what the fault declares |
| mended | what ended the fault: svc by itself, or a person, and with what |
| seconds to recovery | from planting (from mending, where a person has to) until a new request is answered; asked anew every 20 ms, so 0.01 means that nothing was noticed |
| limit | longest recovery in seconds on a quiet machine; a machine on which commands take longer has longer in proportion |
| requests | sent while the fault lasted, by the client that it affected and, under load, by three other clients |
| ended with an error | of these, refused or ended with an error that says what happened; only errors that the fault declares may come |
| lost | of these, ended with neither an answer nor an error |
| verdict | passed when all that the fault declares held, within its limit |

How the page stays true:

- \`npm test\` compares it with the faults: names, how they are planted, who mends them, limits, what the user must see, and which requests may fail.
  A fault that is added or declares something else needs its row again: \`npm run chaos -- --only PATTERN --page\`; \`npm run chaos\` measures all of them.
- Changes of svc itself do not outdate it. \`.ci/run\` plants a third of the faults, another one from commit to commit, and fails when one does not hold.
- Deadlines are conditions, not times: faults hold on a busy machine too, and two at a time (\`--jobs 2\`).

Two things cannot be saved. When the daemon itself is killed, its answers are cut off, and no process is left to report it (when it stops,
a connection that the kernel has accepted and the daemon has not may be reset). And an engine that
dies after the first words of an answer ends that answer with an error, because a second try might say something else; before the first words
the request is tried again without a trace for its client.
`;

function line(row: Row): string {
  const { fault, verdict, problems, saw, recoverySeconds, requests } = row;
  const isPlanted = verdict !== 'skipped';
  const isCounted = isPlanted && requests.sent > 0;
  const why = problems.length === 0 ? '' : `: ${problems.join('; ')}`;
  return written({
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
  });
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
