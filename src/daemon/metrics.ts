/**
 * Metrics for Prometheus. Counters and histograms of requests are updated as requests end; all other metrics are
 * read at scrape time from the sources of the health record.
 *
 * Every label is bounded and free of user text: routes, methods and codes come from tables, providers from the
 * config. Only a model name may come from a request. So a model given as a file path is `file`, and names after
 * the first MAX_MODELS are `other`. API keys appear by the name that the owner of the daemon gave them; names
 * after the first MAX_KEYS are `other` too.
 */
import { Counter, Gauge, Histogram, Registry, type Metric } from 'prom-client';
import { allows, type KeyScope } from '../protocol/keys.ts';
import { LOCAL } from '../routing/policy.ts';
import { registerProcessMetrics } from '../process/process-metrics.ts';
import type { LoadedModelHealth, ProviderRecord, ProviderState, StepsHealth } from '../protocol/records.ts';
import type { Outcome } from '../routing/router.ts';

/** Current values that the page is built from. */
export interface Snapshot {
  readonly version: string;
  readonly ready: boolean;
  readonly queue: { readonly waiting: number; readonly active: number };
  readonly models: readonly LoadedModelHealth[];
  /** Totals since the daemon started. */
  readonly engines: { readonly crashes: number; readonly restarts: number };
  readonly providers: readonly ProviderRecord[];
  /** Spans of traces. null: traces are off. */
  readonly spans: { readonly exported: number; readonly dropped: number } | null;
}

export interface MetricsOptions {
  /** Also exports some metrics under vLLM's names, for schedulers that read those. */
  readonly vllmAliases: boolean;
  snapshot(): Snapshot;
}

const MAX_MODELS = 100;
const MAX_KEYS = 100;
const PROVIDER_STATES: readonly ProviderState[] = ['unknown', 'healthy', 'unhealthy', 'unconfigured'];
const FIRST_TOKEN_SECONDS = [0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 10, 30, 60, 120];
const INTER_TOKEN_SECONDS = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.5, 1, 2.5];

/** Labels of requests by provider, model and outcome. */
const OUTCOME = ['provider', 'model', 'outcome'];

/** A metric without labels of its own; null: it cannot be measured now, and is omitted, never 0. */
type Row<Source> = readonly [name: string, help: string, figure: (source: Source) => number | null];

const GAUGES: readonly Row<Snapshot>[] = [
  ['svc_ready', '1 while /readyz answers 200, else 0', ({ ready }) => (ready ? 1 : 0)],
  ['svc_requests_waiting', 'Requests that no backend has begun to answer', ({ queue }) => queue.waiting],
  ['svc_requests_active', 'Requests in progress at a backend', ({ queue }) => queue.active],
];
const COUNTERS: readonly Row<Snapshot>[] = [
  ['svc_engine_crashes_total', 'Engine processes that crashed or hung', ({ engines }) => engines.crashes],
  ['svc_engine_restarts_total', 'Engine restarts after a failure', ({ engines }) => engines.restarts],
  ['svc_trace_spans_exported_total', 'Spans that the collector accepted', ({ spans }) => spans?.exported ?? null],
  [
    'svc_trace_spans_dropped_total',
    'Spans that were lost: the queue was full, or the collector refused them',
    ({ spans }) => spans?.dropped ?? null,
  ],
];
const MODEL_GAUGES: readonly Row<LoadedModelHealth>[] = [
  ['svc_model_requests_waiting', 'Requests waiting for this engine', ({ waiting }) => waiting],
  ['svc_model_requests_active', 'Requests in progress in this engine', ({ active }) => active],
  ['svc_context_tokens', 'Longest context of a request', (model) => model.context_length],
  ['svc_kv_cells_used', 'KV-cache cells held by generations', (model) => model.kv_cells_used],
  ['svc_kv_cells_cached', 'KV-cache cells held by cached prefixes', (model) => model.kv_cells_cached],
  ['svc_kv_cells_capacity', 'KV-cache cells allocated', (model) => model.kv_cells_total],
  ['svc_kv_tokens_swapped', 'Tokens of cached prefixes swapped out to host memory', (model) => model.kv_tokens_swapped],
  ['svc_engine_threads', 'Compute threads of this engine', ({ steps }) => steps?.threads ?? null],
  ['svc_engine_resident_memory_bytes', 'Resident memory of this engine process', ({ rss_bytes }) => rss_bytes],
];
/** Counters that each engine keeps since its model was loaded. They restart at 0 when it is loaded again. */
const STEP_COUNTERS: readonly Row<StepsHealth>[] = [
  ['svc_engine_steps_total', 'Engine steps (batches computed by the model)', ({ count }) => count],
  ['svc_engine_rows_total', 'Batch rows (tokens) computed in all steps', ({ rows }) => rows],
  ['svc_engine_prompt_tokens_total', 'Prompt tokens computed', (steps) => steps.prompt_tokens],
  ['svc_engine_drafted_tokens_total', 'Draft tokens computed (speculative decoding)', (steps) => steps.drafted_tokens],
  [
    'svc_engine_accepted_tokens_total',
    'Draft tokens accepted (speculative decoding)',
    (steps) => steps.accepted_tokens,
  ],
  ['svc_engine_preemptions_total', 'Preemptions of a generation to free KV-cache cells', (steps) => steps.preemptions],
  ['svc_engine_evicted_cells_total', 'KV-cache cells evicted from cached prefixes', (steps) => steps.evicted_cells],
  [
    'svc_engine_predicted_seconds_total',
    'Time of all steps as predicted by the cost model',
    (steps) => steps.predicted_ms / 1000,
  ],
  ['svc_engine_step_seconds_total', 'Measured time of all steps', (steps) => steps.spent_ms / 1000],
];
const ALIASES: readonly Row<Snapshot>[] = [
  ['vllm:num_requests_waiting', 'Alias of svc_requests_waiting', ({ queue }) => queue.waiting],
  ['vllm:num_requests_running', 'Alias of svc_requests_active', ({ queue }) => queue.active],
  ['vllm:kv_cache_usage_perc', 'Fraction of all KV-cache cells held by generations, 0 to 1', cacheUsage],
];

function cacheUsage({ models }: Snapshot): number {
  const sum = (figure: (model: LoadedModelHealth) => number | null): number =>
    models.reduce((total, model) => total + (figure(model) ?? 0), 0);
  const total = sum((model) => model.kv_cells_total);
  return total === 0 ? 0 : sum((model) => model.kv_cells_used) / total;
}

type Setter = (labels: Record<string, string>, value: number | null) => void;

export class Metrics {
  readonly #registry = new Registry();
  readonly #options: MetricsOptions;
  readonly #models = new Set<string>();
  readonly #keys = new Set<string>();
  readonly #requests = this.#counter('svc_http_requests_total', 'Finished HTTP requests by route and status code', [
    'route',
    'status',
  ]);
  readonly #calls = this.#counter('svc_grpc_calls_total', 'Finished gRPC calls by method and status code', [
    'method',
    'code',
  ]);
  readonly #generations = this.#counter('svc_generations_total', 'Finished generations by outcome', OUTCOME);
  readonly #embeddings = this.#counter('svc_embeddings_total', 'Finished embedding requests by outcome', OUTCOME);
  readonly #rerankings = this.#counter('svc_rerankings_total', 'Finished reranking requests by outcome', OUTCOME);
  readonly #tokenizings = this.#counter(
    'svc_tokenizations_total',
    'Finished requests to tokenize or detokenize by outcome',
    OUTCOME,
  );
  readonly #attempts = this.#counter('svc_provider_attempts_total', 'Attempts at a backend by outcome', [
    'provider',
    'outcome',
  ]);
  readonly #inputTokens = this.#counter(
    'svc_input_tokens_total',
    'Input tokens of completed requests (prompts, embedding inputs, ranked documents)',
  );
  readonly #cachedTokens = this.#counter(
    'svc_cache_hit_tokens_total',
    'Input tokens of completed requests that a prefix cache held',
  );
  readonly #outputTokens = this.#counter('svc_output_tokens_total', 'Output tokens of completed generations');
  readonly #keyRequests = this.#counter(
    'svc_key_requests_total',
    'Finished generations, embedding, reranking and tokenizing requests by API key',
    ['key', 'provider', 'outcome'],
  );
  readonly #keyTokens = this.#counter(
    'svc_key_tokens_total',
    'Input and output tokens of completed requests by API key',
    ['key', 'provider'],
  );
  readonly #firstToken = this.#histogram(
    'svc_time_to_first_token_seconds',
    'Time from the arrival of a generation request to the first text of its answer',
    FIRST_TOKEN_SECONDS,
  );
  readonly #interToken = this.#histogram(
    'svc_inter_token_seconds',
    'Mean time between output tokens, one observation per completed generation',
    INTER_TOKEN_SECONDS,
  );

  constructor(options: MetricsOptions) {
    this.#options = options;
    this.#readWhenAsked();
    if (options.vllmAliases) this.#gauges(ALIASES);
  }

  /** `route`: the path in the table of routes; null: no route matched. */
  requestEnded(route: string | null, status: number): void {
    this.#requests.inc({ route: route ?? 'none', status: String(status) });
  }

  /** `method`: `svc.v1.Runtime/GetHealth`; `code`: the name of gRPC's status. */
  callEnded(method: string, code: string): void {
    this.#calls.inc({ method, code });
  }

  answerEnded({ kind, caller, provider, model: name, outcome, firstTextMs, finish, attempts }: Outcome): void {
    const model = name === null ? 'none' : this.#modelLabel(name);
    const ended = {
      generation: this.#generations,
      embedding: this.#embeddings,
      reranking: this.#rerankings,
      tokenizing: this.#tokenizings,
    };
    ended[kind].inc({ provider, model, outcome });
    const key = caller.name === null ? 'none' : bounded(this.#keys, caller.name, MAX_KEYS);
    this.#keyRequests.inc({ key, provider, outcome });
    for (const attempt of attempts) this.#attempts.inc({ provider: attempt.provider, outcome: attempt.code });
    const labels = { provider, model };
    if (kind === 'generation' && firstTextMs !== null) this.#firstToken.observe(labels, firstTextMs / 1000);
    // Tokens that are only counted cost nothing.
    if (finish === null || kind === 'tokenizing') return;
    const { usage, timings } = finish;
    if (usage !== null) {
      this.#inputTokens.inc(labels, usage.input_tokens);
      this.#cachedTokens.inc(labels, usage.cached_tokens);
      this.#outputTokens.inc(labels, usage.output_tokens);
      this.#keyTokens.inc({ key, provider }, usage.input_tokens + usage.output_tokens);
    }
    if (timings.tokens_per_second) this.#interToken.observe(labels, 1 / timings.tokens_per_second);
  }

  /** The Prometheus page: without providers and API keys for a caller whose scope allows no providers. */
  async page(scope: KeyScope): Promise<{ contentType: string; text: string }> {
    const { contentType } = this.#registry;
    if (allows(scope, 'inference')) return { contentType, text: await this.#registry.metrics() };
    const local = new Registry();
    for (const { name } of this.#registry.getMetricsAsArray()) {
      const metric = this.#registry.getSingleMetric(name);
      const record = await metric?.get();
      if (record === undefined) continue;
      const values = record.values.filter(({ labels }) => isLocal(labels));
      // A registry writes what a metric's `get` returns.
      local.registerMetric({ name, get: () => Promise.resolve({ ...record, values }) } as unknown as Metric);
    }
    return { contentType, text: await local.metrics() };
  }

  #readWhenAsked(): void {
    this.#read('gauge', 'svc_build_info', 'Version of the daemon as a label; always 1', ['version'], (now, set) =>
      set({ version: now.version }, 1),
    );
    this.#gauges(GAUGES);
    for (const [name, help, figure] of MODEL_GAUGES) {
      this.#read('gauge', name, help, ['model'], ({ models }, set) => {
        for (const model of models) set({ model: this.#modelLabel(model.id) }, figure(model));
      });
    }
    for (const [name, help, figure] of STEP_COUNTERS) {
      this.#read('counter', name, help, ['model'], ({ models }, set) => {
        for (const { id, steps } of models) set({ model: this.#modelLabel(id) }, steps && figure(steps));
      });
    }
    for (const [name, help, figure] of COUNTERS) {
      this.#read('counter', name, help, [], (now, set) => set({}, figure(now)));
    }
    const states = '1 for the current state of the provider, else 0';
    this.#read('gauge', 'svc_provider_state', states, ['provider', 'state'], ({ providers }, set) => {
      for (const { name, state } of providers)
        for (const each of PROVIDER_STATES) set({ provider: name, state: each }, each === state ? 1 : 0);
    });
    registerProcessMetrics(this.#registry);
  }

  #gauges(rows: readonly Row<Snapshot>[]): void {
    for (const [name, help, figure] of rows) this.#read('gauge', name, help, [], (now, set) => set({}, figure(now)));
  }

  #modelLabel(name: string): string {
    return name.startsWith('file:') || name.startsWith('/') ? 'file' : bounded(this.#models, name, MAX_MODELS);
  }

  #counter(name: string, help: string, labelNames: readonly string[] = ['provider', 'model']): Counter {
    return new Counter({ name, help, labelNames, registers: [this.#registry] });
  }

  #histogram(name: string, help: string, buckets: number[]): Histogram {
    return new Histogram({ name, help, buckets, labelNames: ['provider', 'model'], registers: [this.#registry] });
  }

  /** Registers a metric. `read` sets all its values at every scrape; values that it does not set are dropped. */
  #read(
    kind: 'counter' | 'gauge',
    name: string,
    help: string,
    labelNames: readonly string[],
    read: (now: Snapshot, set: Setter) => void,
  ): void {
    const now = (): Snapshot => this.#options.snapshot();
    const options = {
      name,
      help,
      labelNames,
      registers: [this.#registry],
      collect(this: Counter | Gauge) {
        this.reset();
        // Values of models that share a label are summed.
        read(now(), (labels, value) => {
          if (value !== null) this.inc(labels, value);
        });
      },
    };
    if (kind === 'counter') new Counter(options);
    else new Gauge(options);
  }
}

/** False for values of a provider or an API key. `none`: no backend began to answer. */
function isLocal({ key, provider = LOCAL }: { readonly key?: unknown; readonly provider?: unknown }): boolean {
  return key === undefined && (provider === LOCAL || provider === 'none');
}

/** Returns the name; `other` once `most` names are known and this is none of them. */
function bounded(known: Set<string>, name: string, most: number): string {
  if (!known.has(name) && known.size >= most) return 'other';
  known.add(name);
  return name;
}
