/**
 * Duration of every command of svc in homes that it cannot use.
 *
 *   npm run bench:homes
 *
 * Writes its section of docs/benchmarks.md. Exits with 1 if a command takes longer than a second or is not refused.
 * REQUIRES: dist/ (npm run build); root, for the homes that are mounted.
 */
import {
  BadHomes,
  COMMANDS,
  DOCTOR,
  FULL,
  STARTING,
  UNUSABLE,
  WITHOUT_HOME,
  WRITING,
} from '../test/support/bad-homes.ts';
import { machine, writeSection } from './page.ts';

const TICK_MS = 10;
const LIMIT_MS = 1000;

interface Case {
  readonly name: string;
  readonly ms: number;
  readonly cpuMs: number;
}

const homes = new BadHomes();
const rows: string[] = [];
const failures: string[] = [];

async function measure(kind: string, dir: string, names: readonly string[]): Promise<void> {
  const cases: Case[] = [];
  for (const name of names) {
    const { result, ms, ticks } = await homes.run(dir, name);
    cases.push({ name, ms, cpuMs: ticks * TICK_MS });
    const what = `svc ${name} in a home that ${kind}`;
    if (result.code !== 73 && result.code !== 78) failures.push(`${what}: exit ${String(result.code)}`);
    if (ms > LIMIT_MS) failures.push(`${what}: ${ms.toFixed(0)} ms`);
  }
  const median = (of: (each: Case) => number): number => cases.map(of).sort((a, b) => a - b)[cases.length >> 1] ?? 0;
  const [longest] = cases.toSorted((a, b) => b.ms - a.ms);
  const [hardest] = cases.toSorted((a, b) => b.cpuMs - a.cpuMs);
  const worst = (ms = 0, name = ''): string => `${ms.toFixed(0)} ms (\`${name}\`)`;
  rows.push(
    `| ${kind} | ${String(cases.length)} | ${median(({ ms }) => ms).toFixed(0)} ms | ${worst(longest?.ms, longest?.name)} ` +
      `| ${median(({ cpuMs }) => cpuMs).toFixed(0)} ms | ${worst(hardest?.cpuMs, hardest?.name)} |`,
  );
}

try {
  const refused = COMMANDS.filter((name) => name !== DOCTOR && !WITHOUT_HOME.includes(name));
  await homes.run(homes.path(), 'version'); // fills the page cache
  for (const kind of Object.keys(UNUSABLE)) await measure(`is ${kind}`, homes.plant(kind), refused);
  for (const [kind, make] of Object.entries(homes.unwritable)) {
    const dir = make();
    if (dir !== null) await measure(kind, dir, [...WRITING, ...(kind === FULL ? [] : STARTING)]);
  }
} finally {
  await homes.remove();
}

const report = `## Homes that cannot be used

\`npm run bench:homes\` on ${machine()}

Each command that needs a file of SVC_HOME, once in each kind of home that it cannot use: time until it has exited
with 73 or 78, one sentence and a hint. CPU time is counted in units of ${String(TICK_MS)} ms. \`svc doctor\` is not here: it reports
the home as a failed check, and measures the devices first.

| a home that | commands | median | longest | CPU time, median | most |
|---|---|---|---|---|---|
${rows.join('\n')}
`;
console.log(report);
for (const failure of failures) console.error(failure);
await writeSection(report);
process.exitCode = failures.length === 0 ? 0 : 1;
