/**
 * Three models in a memory budget for two, under random load. Measures lost requests, model changes, the engines' peak
 * memory, and engine processes that remain.
 *
 *   npm run bench:residency [-- REQUESTS CLIENTS]
 *
 * Eight clients request random models; one client in twenty disconnects before its answer ends. REQUIRES: the test
 * models (npm run build -- --test-models). Exits with 1 if a request is lost or an engine process remains.
 */
import { readFileSync } from 'node:fs';
import { estimateModel } from '../src/engine/estimate.ts';
import { SvcError } from '../src/protocol/errors.ts';
import { collect, context } from '../test/backends/conformance.ts';
import { ask, isAlive } from '../test/backends/local-support.ts';
import { makeRealLocal } from '../test/backends/real-local.ts';
import { modelPath, TEST_MODELS } from '../test/support/native-engine.ts';
import { machine, writeSection } from './page.ts';

const [requests = 2000, clients = 8] = process.argv.slice(2).map(Number);
const CONTEXT_LENGTH = 8192;
const LEAVING = 0.05;

async function needOf(name: (typeof TEST_MODELS)[number]): Promise<number> {
  const options = { threads: 1, context_length: CONTEXT_LENGTH };
  const { process_bytes, estimates } = await estimateModel({ id: name, path: modelPath(name) }, options, [
    CONTEXT_LENGTH,
  ]);
  const devices = estimates[0]?.devices ?? [];
  return devices.reduce(
    (sum, each) => sum + each.weights_bytes + each.cache_bytes + each.compute_bytes,
    process_bytes ?? 0,
  );
}

/** Resident bytes that no file backs; processes that have exited count as 0. */
function heldBy(pids: readonly number[]): number {
  let bytes = 0;
  for (const pid of pids) {
    try {
      const status = readFileSync(`/proc/${String(pid)}/status`, 'utf8');
      for (const [, count] of status.matchAll(/^Rss(?:Anon|Shmem):\s+(\d+)/gm)) bytes += Number(count) * 1024;
    } catch {
      // The process has just exited.
    }
  }
  return bytes;
}

const percentile = (sorted: readonly number[], part: number): number =>
  sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * part))] ?? 0;
const megabytes = (bytes: number): string => (bytes / 1e6).toFixed(0);

const needs = await Promise.all(TEST_MODELS.map(needOf));
const [most = 0, second = 0] = [...needs].sort((a, b) => b - a);
// Any two models fit, with 10 % to spare; three never do.
const budget = Math.ceil((most + second) * 1.1);
const paths = Object.fromEntries(TEST_MODELS.map((name) => [name, modelPath(name)]));
const { backend, log, dispose } = makeRealLocal(
  { context_length: CONTEXT_LENGTH },
  paths,
  null,
  {},
  {
    memory_budget_bytes: budget,
  },
);

const waits: number[] = [];
const failures: string[] = [];
const everyPid = new Set<number>();
let [next, answered, left, held, loadedAtOnce] = [0, 0, 0, 0, 0];
const watch = setInterval(() => {
  for (const pid of backend.pids()) everyPid.add(pid);
  held = Math.max(held, heldBy(backend.pids()));
  loadedAtOnce = Math.max(loadedAtOnce, backend.loadedModels().filter(({ state }) => state === 'loaded').length);
}, 20);

async function client(): Promise<void> {
  while (next < requests) {
    next += 1;
    const model = TEST_MODELS[Math.floor(Math.random() * TEST_MODELS.length)] ?? TEST_MODELS[0];
    const request = { ...ask('Tell me something.', model), max_tokens: 1 + Math.floor(Math.random() * 24) };
    const leaving = new AbortController();
    if (Math.random() < LEAVING) {
      setTimeout(() => leaving.abort(new SvcError('CANCELLED', 'the client left')), Math.random() * 500);
    }
    const startedAt = performance.now();
    try {
      const events = await collect(backend.generate(request, context(leaving.signal)));
      if (events.at(-1)?.type !== 'finish') throw new Error('the answer has no finish event');
      answered += 1;
      waits.push(performance.now() - startedAt);
    } catch (error) {
      if (leaving.signal.aborted) left += 1;
      else failures.push(error instanceof SvcError ? `${error.code}: ${error.message}` : String(error));
    }
  }
}

const startedAt = performance.now();
await Promise.all(Array.from({ length: clients }, client));
const seconds = (performance.now() - startedAt) / 1000;
for (const name of TEST_MODELS) await backend.unload(name);
clearInterval(watch);
const alive = [...everyPid].filter(isAlive);
await dispose();

waits.sort((a, b) => a - b);
const loads = log.filter(({ message }) => message === 'engine started').length;
const crashes = log.filter(({ level, message }) => level === 'error' && message === 'engine ended').length;
const isWell = failures.length === 0 && crashes === 0 && alive.length === 0 && answered + left === requests;
const report = `## Three models in a budget for two

\`npm run bench:residency\` on ${machine()}

Test models of ${needs.map(megabytes).join(', ')} MB (estimated) in a memory budget of ${megabytes(budget)} MB. ${String(clients)} clients request random models.
Each model change ends one engine process and starts another.

| | |
|---|---|
| requests | ${String(requests)} in ${seconds.toFixed(0)} s |
| answered | ${String(answered)} |
| cancelled by their client | ${String(left)} |
| lost | ${String(failures.length)} |
| engines started | ${String(loads)} |
| engine crashes | ${String(crashes)} |
| models loaded at once, maximum | ${String(loadedAtOnce)} |
| private memory of all engines, maximum | ${megabytes(held)} MB |
| time to the complete answer, median and 99th percentile | ${percentile(waits, 0.5).toFixed(0)} ms, ${percentile(waits, 0.99).toFixed(0)} ms |
| engine processes left at the end | ${String(alive.length)} |
`;
console.log(report);
for (const failure of new Set(failures)) console.error(failure);
if (isWell && requests >= 2000) await writeSection(report);
process.exitCode = isWell ? 0 : 1;
