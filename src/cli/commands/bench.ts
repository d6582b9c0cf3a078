/**
 * Measures how fast a model answers a client: through the control socket, routing and the queue, one request at a
 * time. The figures are the timings that every answer carries.
 *
 * The record also has the engine's work: the growth of its counters during the benchmark, warm-up included.
 *
 * Each run has its own prompt of random words, so that the prefix cache holds only the model's template. Tokens that
 * came from a cache are not counted as computed.
 */
import { Client } from '../../client/client.ts';
import { SvcError } from '../../protocol/errors.ts';
import type { GenerateRequest, GenerateResult } from '../../protocol/generate.ts';
import { given } from '../../protocol/given.ts';
import { LIMITS } from '../../protocol/limits.ts';
import { receive } from '../asking/answer.ts';
import { namingPull } from '../asking/offer-pull.ts';
import type { LoadedModelHealth, StepsHealth } from '../../protocol/records.ts';
import { jsonFlag, modelFlag, type Flags, type Run, type Spec } from '../spec.ts';
import { text } from '../terminal/format.ts';
import { facts } from '../terminal/layout.ts';
import { requestedModel } from '../machine/model-name.ts';
import { out, say, sayProgress } from '../terminal/output.ts';
import { printResult } from '../terminal/result.ts';

const WORDS = 'time year people way day man thing woman life child world school state family student group'.split(' ');

/** null: no run could measure it. */
type Figure = { readonly median: number; readonly min: number; readonly max: number } | null;

export const spec = {
  summary: 'Measure how fast a model answers',
  detail: [
    'Sends one prompt at a time through the running daemon: a warm-up, then several runs. Prints their median, minimum and maximum.',
  ],
  flags: {
    model: modelFlag,
    runs: {
      kind: 'count',
      least: 1,
      most: 1000,
      value: 'N',
      default: '5',
      summary: 'number of measured runs',
    },
    'prompt-tokens': {
      kind: 'count',
      least: 1,
      most: LIMITS.contextLength,
      value: 'N',
      default: '512',
      summary: 'approximate prompt length in tokens',
    },
    'max-tokens': {
      kind: 'count',
      least: 1,
      most: LIMITS.maxTokens,
      value: 'N',
      default: '128',
      summary: 'maximum answer length in tokens',
    },
    json: jsonFlag,
  },
  examples: ['svc bench', 'svc bench -m qwen --prompt-tokens 4000 --runs 3', 'svc bench --json'],
} as const satisfies Spec;

export const run: Run<typeof spec> = async (flags) => {
  const client = new Client();
  const { queue, models } = await client.health();
  if (queue.active > 0) say('other requests are running in the daemon: the figures will include their load');
  try {
    const record = await namingPull(flags.model, () => measure(client, flags, models));
    sayProgress('');
    printResult(flags.json, record, describe(record));
  } finally {
    sayProgress('');
  }
};

type BenchRecord = Awaited<ReturnType<typeof measure>>;

type Cells = Pick<LoadedModelHealth, 'kv_cells_used' | 'kv_cells_cached' | 'kv_cells_total' | 'kv_tokens_swapped'>;
/** Counters since the first run; threads and cells as at the end. */
type Steps = StepsHealth & Cells & { readonly rows_per_step: number };

/** `before`: the models that were loaded before the benchmark. */
async function measure(client: Client, flags: Flags<typeof spec>, before: readonly LoadedModelHealth[]) {
  const wanted = flags['prompt-tokens'];
  const ask = async (words: number): Promise<GenerateResult> =>
    await receive(client, requestOf(flags, words), { signal: new AbortController().signal });
  sayProgress('warming up');
  // Two prompt lengths give the tokens per word and the tokens of the template.
  const [fewer, more] = [Math.ceil(wanted / 8) + 1, Math.ceil(wanted / 2) + 2];
  const few = await ask(fewer);
  const many = await ask(more);
  const perWord = (inputTokens(many) - inputTokens(few)) / (more - fewer);
  const template = inputTokens(many) - perWord * more;
  const words = Math.max(1, Math.round((wanted - template) / Math.max(perWord, 0.1)));
  const results: GenerateResult[] = [];
  for (let n = 1; n <= flags.runs; n += 1) {
    sayProgress(`run ${n} of ${flags.runs}`);
    results.push(await ask(words));
  }
  const figureOf = (value: (result: GenerateResult) => number | null): Figure => figure(results.map(value));
  return {
    model: many.model,
    provider: many.provider,
    runs: results.length,
    input_tokens: figureOf(inputTokens),
    output_tokens: figureOf(({ usage }) => usage?.output_tokens ?? null),
    ttft_ms: figureOf(({ timings }) => timings.ttft_ms),
    prefill_tokens_per_second: figureOf(prefillSpeed),
    decode_tokens_per_second: figureOf(({ timings }) => timings.tokens_per_second),
    // null: a provider answered, not an engine on this machine.
    steps: many.provider === 'local' ? await stepsOf(client, many.model, before) : null,
  };
}

/** Returns the counters' growth since `before`. An engine reports its counters before the end of an answer. */
async function stepsOf(client: Client, model: string, before: readonly LoadedModelHealth[]): Promise<Steps | null> {
  const now = (await client.health()).models.find(({ id }) => id === model);
  const sinceLoad = now?.steps ?? null;
  if (now === undefined || sinceLoad === null) return null;
  // A new engine process counts from 0.
  const old = before.find(({ id, pid }) => id === now.id && pid === now.pid)?.steps ?? null;
  const steps = grown(sinceLoad, old);
  const { kv_cells_used, kv_cells_cached, kv_cells_total, kv_tokens_swapped } = now;
  const rows_per_step = toTenths(steps.rows / Math.max(1, steps.count));
  return { ...steps, rows_per_step, kv_cells_used, kv_cells_cached, kv_cells_total, kv_tokens_swapped };
}

/** Returns the growth of all counters; `threads` is not a counter. */
function grown({ threads, ...counters }: StepsHealth, before: StepsHealth | null): StepsHealth {
  const names = Object.keys(counters) as (keyof typeof counters)[];
  const growth = names.map((name) => [name, toTenths(counters[name] - (before?.[name] ?? 0))]);
  return { ...(Object.fromEntries(growth) as typeof counters), threads };
}

function requestOf({ model, 'max-tokens': maxTokens }: Flags<typeof spec>, words: number): GenerateRequest {
  const chosen = Array.from({ length: words }, () => WORDS[Math.floor(Math.random() * WORDS.length)]);
  return {
    messages: [{ role: 'user', content: chosen.join(' ') }],
    sampling: {},
    stop: [],
    max_tokens: maxTokens,
    ...given({ model: requestedModel(model) }),
  };
}

/** Throws PROVIDER_FAILED if there is no token count: without it the prompt length cannot be adjusted. */
function inputTokens({ usage, provider }: GenerateResult): number {
  if (usage === null) throw new SvcError('PROVIDER_FAILED', `${provider} does not report how many tokens a prompt has`);
  return usage.input_tokens;
}

/** Computed prompt tokens per second, from leaving the queue to the first token. */
function prefillSpeed({ usage, timings }: GenerateResult): number | null {
  if (usage === null || timings.ttft_ms === null || timings.ttft_ms <= timings.queue_ms) return null;
  return ((usage.input_tokens - usage.cached_tokens) * 1000) / (timings.ttft_ms - timings.queue_ms);
}

function figure(values: readonly (number | null)[]): Figure {
  const known = values.filter((value) => value !== null).sort((a, b) => a - b);
  const [min] = known;
  const max = known.at(-1);
  if (min === undefined || max === undefined) return null;
  const middle = (known.length - 1) / 2;
  const median = ((known[Math.floor(middle)] ?? min) + (known[Math.ceil(middle)] ?? max)) / 2;
  return { median: toTenths(median), min: toTenths(min), max: toTenths(max) };
}

const toTenths = (value: number): number => Math.round(value * 10) / 10;

function describe(record: BenchRecord): string {
  const shown = (value: Figure, unit: string): string => {
    if (value === null) return text(null);
    const range = value.min === value.max ? '' : ` (${value.min} to ${value.max})`;
    return `${value.median} ${unit}${range}`;
  };
  return facts(
    [
      ['model', `${record.model} (${record.provider})`],
      ['runs', String(record.runs)],
      ['prompt', shown(record.input_tokens, 'tokens')],
      ['answer', shown(record.output_tokens, 'tokens')],
      ['first token', `after ${shown(record.ttft_ms, 'ms')}`],
      ['reads', shown(record.prefill_tokens_per_second, 'prompt tokens/s')],
      ['writes', shown(record.decode_tokens_per_second, 'tokens/s')],
    ],
    out.tableColumns,
  );
}
