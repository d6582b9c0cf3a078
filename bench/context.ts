/**
 * The context of a model that was trained for 131,072 tokens, by memory budget: what is chosen at load, the memory
 * promised for it, and the memory measured once the context, its lane and the copies of prefixes are in use.
 *
 *   npm run bench:context [-- GIB ...]
 *
 * The model has random weights, little to compute and 32 KiB of F16 cache for each token, like a model of 1B. For each
 * budget one request needs the whole context, so that the KV cache grows to its end; it is cancelled once it runs.
 * Others then fill the memory for copies, and one with a seed computes in the lane. Exits with 1 if the measured
 * memory differs from the promise by more than a tenth.
 */
import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import type { LocalBackend } from '../src/backends/local/local-backend.ts';
import { SvcError } from '../src/protocol/errors.ts';
import { collect, context } from '../test/backends/conformance.ts';
import { ask } from '../test/backends/local-support.ts';
import { makeRealLocal } from '../test/backends/real-local.ts';
import { waitFor } from '../test/support/wait.ts';
import { machine, writeSection } from './page.ts';

const GIB = 2 ** 30;
const TRAINED = 131_072;
const MODEL = 'large-cache';
const PROMPT_TOKENS = 500;
/** Tokens whose copies take all the memory for copies: as many as fit in 512 MiB, or a quarter of the cache. */
const copiedTokens = (length: number): number => Math.min(length, Math.max(16_384, length / 4)) + 4 * PROMPT_TOKENS;

const given = process.argv.slice(2).map(Number);
const budgets = given.length > 0 ? given : [1, 2, 4, 8];
const root = fileURLToPath(new URL('..', import.meta.url));
execFileSync(process.execPath, ['--import', 'tsx', 'test/make-model/make-model.ts', MODEL], {
  cwd: root,
  stdio: 'inherit',
});
const path = fileURLToPath(new URL(`../build/models/${MODEL}.gguf`, import.meta.url));

const words = (count: number, start: number): string =>
  Array.from({ length: count }, (_, at) => ['river', 'bridge', 'boat', 'stone', 'wind'][(start + at * at) % 5]).join(
    ' ',
  );

/** null: the process has ended. */
function heldBy(pid: number): number | null {
  let status: string;
  try {
    status = readFileSync(`/proc/${String(pid)}/status`, 'utf8');
  } catch {
    return null;
  }
  return [...status.matchAll(/^Rss(?:Anon|Shmem):\s+(\d+)/gm)].reduce((sum, [, kib]) => sum + Number(kib) * 1024, 0);
}

interface Row {
  readonly budget: number;
  readonly context: number;
  readonly cache: string;
  readonly first: number;
  readonly promised: number;
  readonly measured: number;
}

/** What is being done; also shown if the program is ended from outside. */
let doing = 'nothing';
function tell(budget: number, what: string): void {
  doing = `${String(budget)} GiB: ${what}`;
  console.error(`${new Date().toISOString()} ${doing}`);
}
process.once('exit', (code) => {
  if (doing !== 'nothing') console.error(`ended with ${String(code)} during: ${doing}`);
});
for (const signal of ['SIGHUP', 'SIGINT', 'SIGTERM'] as const) {
  process.once(signal, () => {
    console.error(`ended by ${signal}`);
    process.exit(1);
  });
}

/** Sends a request that needs all of the context, and leaves when the KV cache has grown. */
async function growToTheEnd(backend: LocalBackend, length: number): Promise<void> {
  const leaving = new AbortController();
  const whole = collect(
    backend.generate({ ...ask(words(length - 2500, 0), 'model'), max_tokens: 2000 }, context(leaving.signal)),
  );
  whole.catch(() => undefined);
  const grown = waitFor('the cache to grow', () => backend.loadedModels()[0]?.kv_cells_total === length);
  // A refusal ends the request before that.
  await Promise.race([grown, whole]);
  leaving.abort(new SvcError('CANCELLED', 'it has grown'));
  await whole.catch(() => undefined);
}

async function fillCopies(backend: LocalBackend, length: number): Promise<void> {
  for (let at = 0; at * PROMPT_TOKENS < copiedTokens(length); at += 8) {
    await Promise.all(
      Array.from({ length: 8 }, (_, n) =>
        collect(
          backend.generate(
            { ...ask(`${String(at + n)} ${words(PROMPT_TOKENS, n)}`, 'model'), max_tokens: 1 },
            context(),
          ),
        ),
      ),
    );
  }
}

async function measure(budget: number): Promise<Row> {
  tell(budget, 'loading');
  const { backend, log, dispose } = makeRealLocal(
    { threads: 2 },
    { model: path },
    null,
    {},
    { memory_budget_bytes: budget * GIB },
    { model: TRAINED },
  );
  let measured = 0;
  const [pid] = await (async () => {
    for await (const _ of backend.load('model', new AbortController().signal));
    return backend.pids();
  })();
  const watch = setInterval(() => (measured = Math.max(measured, heldBy(pid as number) ?? 0)), 50);
  // The memory of another process says nothing.
  const checkEngine = (): void => {
    if (backend.pids()[0] === pid && heldBy(pid as number) !== null) return;
    const end = log.find(({ message }) => message === 'engine ended');
    throw new Error(`the engine has ended: ${String(end?.fields['reason'])}`);
  };
  try {
    const fields = log.find(({ message }) => message.startsWith('settings of a load'))?.fields ?? {};
    const [health] = backend.loadedModels();
    const length = health?.context_length ?? 0;
    const first = heldBy(pid as number) ?? 0;

    tell(budget, `growing to ${String(length)} cells`);
    await growToTheEnd(backend, length);
    checkEngine();

    tell(budget, 'filling the memory for copies');
    await fillCopies(backend, length);
    checkEngine();
    tell(budget, 'computing in the lane');
    const seeded = { ...ask(words(Math.min(length / 4, 1500), 1), 'model'), max_tokens: 1, sampling: { seed: 1 } };
    await collect(backend.generate(seeded, context()));
    checkEngine();
    return {
      budget,
      context: length,
      cache: health?.cache_type ?? '',
      first,
      promised: Number(fields['bytes_of_whole_context']) - Number(fields['mapped_bytes']),
      measured,
    };
  } finally {
    clearInterval(watch);
    tell(budget, 'ending the engine');
    await dispose();
  }
}

const gib = (bytes: number): string => (bytes / GIB).toFixed(2);
const rows: Row[] = [];
for (const budget of budgets) {
  rows.push(await measure(budget));
  console.log(rows.at(-1));
}
doing = 'nothing';
const report = `## A context by memory

\`npm run bench:context\` on ${machine()}

A model trained for ${TRAINED.toLocaleString('en')} tokens, with 32 KiB of F16 KV cache for each token. GiB; memory that is not mapped from the
model's file.

| budget | longest context | cache | after the load | promised | measured | measured / promised |
|---|---|---|---|---|---|---|
${rows
  .map(
    ({ budget, context: length, cache, first, promised, measured }) =>
      `| ${String(budget)} | ${length.toLocaleString('en')} | ${cache} | ${gib(first)} | ${gib(promised)} | ${gib(measured)} | ${(measured / promised).toFixed(2)} |`,
  )
  .join('\n')}
`;
console.log(report);
const isWell = rows.every(({ promised, measured }) => Math.abs(measured / promised - 1) <= 0.1);
if (given.length === 0) await writeSection(report);
process.exitCode = isWell ? 0 : 1;
