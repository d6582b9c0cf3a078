/**
 * A soak test: random requests of all kinds to one daemon and its engines. No request may be lost or fail, and memory
 * and open files must not grow.
 *
 *   npm run bench:soak                           12,000 requests, minutes; writes its section of docs/benchmarks.md
 *   npm run bench:soak -- --requests 1000 [--clients 12]
 *
 * With an option, results are only printed; docs/benchmarks.md stays unchanged. Exits with 1 if a target is missed.
 * Linux only: reads /proc.
 */
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { waitFor } from '../test/support/wait.ts';
import { startDaemon, type Daemon } from './daemon.ts';
import { machine, writeSection } from './page.ts';
import { CELLS } from './soak/question.ts';
import { EMBEDDER, KINDS, nameOf, randomKind, type Outcome } from './soak/request.ts';
import { Watched } from './soak/samples.ts';

const SAMPLE_MS = 100;
/** Requests before the measurement: they compile code, fill caches and load every engine. */
const WARM_UP = 1500;
/** Allowed ratio of resident memory in the last quarter to the first; heaps vary. */
const MOST_GROWTH = 1.1;

const root = dirname(dirname(fileURLToPath(import.meta.url)));
const { values } = parseArgs({
  options: { requests: { type: 'string', default: '12000' }, clients: { type: 'string', default: '12' } },
});
const requests = Number(values.requests);
const clients = Number(values.clients);

class Tally {
  readonly outcomes = new Map<Outcome, number>();
  readonly kinds = new Map<string, number>();
  readonly failures = new Map<string, number>();
  ended = 0;

  async run(daemon: Daemon, count: number): Promise<void> {
    let left = count;
    const client = async (): Promise<void> => {
      while (left-- > 0) await this.#one(daemon);
    };
    await Promise.all(Array.from({ length: clients }, client));
  }

  async #one(daemon: Daemon): Promise<void> {
    const kind = randomKind();
    add(this.kinds, kind.name);
    try {
      add(this.outcomes, await kind.run(daemon));
    } catch (error) {
      add(this.failures, `${kind.name}: ${nameOf(error)}`);
    }
    this.ended += 1;
  }
}

const add = <Key>(counts: Map<Key, number>, key: Key): unknown => counts.set(key, (counts.get(key) ?? 0) + 1);

const models = join(root, 'build', 'models');
const daemon = await startDaemon({
  models: { soak: join(models, 'tiny-llama.gguf'), [EMBEDDER]: join(models, 'tiny-llama-embed.gguf') },
  config: { engine: { threads: 2, context_length: CELLS } },
});
try {
  await soak();
} finally {
  await daemon.stop();
}

async function soak(): Promise<void> {
  await KINDS.find(({ name }) => name.startsWith('embeddings'))?.run(daemon);
  const warmUp = new Tally();
  await warmUp.run(daemon, Math.min(WARM_UP, requests / 4));
  await idle();
  const processes = await watched();
  const filesBefore = await openFiles(processes);

  const tally = new Tally();
  const from = performance.now();
  const over = new AbortController();
  const sampling = (async () => {
    while (!over.signal.aborted) {
      await Promise.all(processes.map((each) => each.sample(tally.ended)));
      await new Promise((resolve) => setTimeout(resolve, SAMPLE_MS));
    }
  })();
  const telling = setInterval(() => console.error(`${tally.ended} of ${requests}`), 10_000);
  await tally.run(daemon, requests);
  const seconds = (performance.now() - from) / 1000;
  over.abort();
  clearInterval(telling);
  await sampling;
  const cellsLeft = await idle();
  const isSame = (await watched()).every(({ pid }, index) => pid === processes[index]?.pid);
  const filesAfter = isSame ? await openFiles(processes) : NaN;

  const mib = (bytes: number): string => `${(bytes / 2 ** 20).toFixed(1)} MiB`;
  const growth = processes.map((each): Row => {
    const { first, last } = each.quarters(requests);
    return [
      `resident memory of ${each.name}, first and last quarter`,
      `${mib(first)}, ${mib(last)}`,
      `at most ${((MOST_GROWTH - 1) * 100).toFixed(0)} % more`,
      last <= first * MOST_GROWTH,
    ];
  });
  const failed = [...tally.failures.values()].reduce((sum, count) => sum + count, 0);
  const rows: Row[] = [
    ['requests that failed', String(failed), '0', failed === 0],
    ...growth,
    ['KV-cache cells that generations hold at the end', String(cellsLeft), '0', cellsLeft === 0],
    [
      'open files of daemon and engines, idle, before and after',
      `${filesBefore}, ${filesAfter}`,
      'no growth',
      filesAfter <= filesBefore,
    ],
    ['process ids of daemon and engines at the end', isSame ? 'unchanged' : 'changed', 'unchanged', isSame],
  ];
  const text = page(tally, rows, seconds);
  if (process.argv.length === 2) await writeSection(text);
  console.log(text);
  for (const [what, count] of tally.failures) console.error(`${count} × ${what}`);
  if (rows.some(([, , , holds]) => !holds)) process.exitCode = 1;
}

type Row = readonly [what: string, measured: string, bar: string, holds: boolean];

function page({ outcomes, kinds }: Tally, rows: readonly Row[], seconds: number): string {
  const list = (counts: ReadonlyMap<string, number>): string =>
    [...counts].map(([name, count]) => `${count.toLocaleString('en-US')} ${name}`).join(', ');
  return `## A soak

\`npm run bench:soak\` sends ${requests.toLocaleString('en-US')} random requests to one daemon, ${clients} at a time, after ${WARM_UP.toLocaleString('en-US')} for warm-up. The model has 5 MB and ${CELLS.toLocaleString('en-US')} KV-cache cells.
Requests: ${list(kinds)}. Outcomes: ${list(outcomes)}.
Lengths, sampling, formats, stop strings, priorities, and when a client disconnects are random.
Machine: ${machine()}, ${seconds.toFixed(0)} s.

| | measured | target | |
|---|---|---|---|
${rows.map(([what, measured, bar, holds]) => `| ${what} | ${measured} | ${bar} | ${holds ? 'reached' : '**missed**'} |`).join('\n')}
`;
}

/** Resolves when no request is active; returns the cells that generations still hold. */
async function idle(): Promise<number> {
  const models = await waitFor('the daemon to be idle', async () => {
    const { queue, models } = await daemon.client.health();
    const isIdle = queue.active + queue.waiting === 0 && models.every(({ active, waiting }) => active + waiting === 0);
    // Figures of engines are up to half a second old and may still show the last request.
    return isIdle && models.every(({ kv_cells_used: cells }) => (cells ?? 0) === 0) && models;
  }).catch(async () => (await daemon.client.health()).models);
  return models.reduce((sum, { kv_cells_used: cells }) => sum + (cells ?? 0), 0);
}

async function watched(): Promise<Watched[]> {
  const { pid, models } = await daemon.client.health();
  const engines = [...models].sort((a, b) => a.id.localeCompare(b.id));
  return [
    new Watched('the daemon', pid),
    ...engines.map((model) => new Watched(`the engine of ${model.id}`, model.pid ?? 0)),
  ];
}

async function openFiles(processes: readonly Watched[]): Promise<number> {
  const counts = await Promise.all(processes.map((each) => each.openFiles()));
  return counts.reduce((sum, count) => sum + count, 0);
}
