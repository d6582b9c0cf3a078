/**
 * Metrics for Prometheus. Counters and histograms of requests are updated as requests end; all other metrics are
 * read at scrape time from the sources of the health record.
 *
 * Every label is bounded and free of user text: routes, methods and codes come from tables, providers from the
 * config. Only a model name may come from a request. So a model given as a file path is `file`, and names after
 * the first MAX_MODELS are `other`. API keys appear by the name that the owner of the daemon gave them; names
 * after the first MAX_KEYS are `other` too.
 */
import { Counter, Gauge, Histogram, Registry } from 'prom-client';
import { registerProcessMetrics } from '../process/process-metrics.ts';
import type { LoadedModelHealth, ProviderRecord, ProviderState, StepsHealth } from '../protocol/records.ts';
import type { Outcome } from '../routing/router.ts';
import type { ListenerMetrics } from './services.ts';

/** Current values that the page is built from. */
export interface Snapshot {
  readonly version: string;
  readonly ready: boolean;
  readonly queue: { readonly waiting: number; readonly active: number };
  readonly models: readonly LoadedModelHealth[];
  /** Totals since the daemon started. */
  readonly engines: { readonly crashes: number; readonly restarts: number };
  readonly providers: readonly ProviderRecord[];
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

type Set = (labels: Record<string, string>, value: number) => void;

export class Metrics implements ListenerMetrics {
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
  readonly #generations = this.#counter('svc_generations_total', 'Finished generations by outcome', [
    'provider',
    'model',
    'outcome',
  ]);
  readonly #embeddings = this.#counter('svc_embeddings_total', 'Finished embedding requests by outcome', [
    'provider',
    'model',
    'outcome',
  ]);
  readonly #attempts = this.#counter('svc_provider_attempts_total', 'Attempts at a backend by outcome', [
    'provider',
    'outcome',
  ]);
  readonly #inputTokens = this.#counter(
    'svc_input_tokens_total',
    'Input tokens of completed requests (prompts and embedding inputs)',
  );
  readonly #cachedTokens = this.#counter(
    'svc_cache_hit_tokens_total',
    'Input tokens of completed requests that a prefix cache held',
  );
  readonly #outputTokens = this.#counter('svc_output_tokens_total', 'Output tokens of completed generations');
  readonly #keyRequests = this.#counter(
    'svc_key_requests_total',
    'Finished generations and embedding requests by API key',
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
    if (options.vllmAliases) this.#addAliases();
  }

  requestEnded(route: string | null, status: number): void {
    this.#requests.inc({ route: route ?? 'none', status: String(status) });
  }

  callEnded(method: string, code: string): void {
    this.#calls.inc({ method, code });
  }

  answerEnded({ kind, caller, provider, model: name, outcome, firstTextMs, finish, attempts }: Outcome): void {
    const model = name === null ? 'none' : this.#modelLabel(name);
    (kind === 'generation' ? this.#generations : this.#embeddings).inc({ provider, model, outcome });
    const key = this.#keyLabel(caller.name);
    this.#keyRequests.inc({ key, provider, outcome });
    for (const attempt of attempts) this.#attempts.inc({ provider: attempt.provider, outcome: attempt.code });
    const labels = { provider, model };
    if (kind === 'generation' && firstTextMs !== null) this.#firstToken.observe(labels, firstTextMs / 1000);
    if (finish === null) return;
    const { usage, timings } = finish;
    if (usage !== null) {
      this.#inputTokens.inc(labels, usage.input_tokens);
      this.#cachedTokens.inc(labels, usage.cached_tokens);
      this.#outputTokens.inc(labels, usage.output_tokens);
      this.#keyTokens.inc({ key, provider }, usage.input_tokens + usage.output_tokens);
    }
    if (timings.tokens_per_second) this.#interToken.observe(labels, 1 / timings.tokens_per_second);
  }

  async page(): Promise<{ contentType: string; text: string }> {
    return { contentType: this.#registry.contentType, text: await this.#registry.metrics() };
  }

  #readWhenAsked(): void {
    const now = (): Snapshot => this.#options.snapshot();
    const perModel = (name: string, help: string, figure: (model: LoadedModelHealth) => number | null): void => {
      this.#gauge(name, help, ['model'], (set) => {
        for (const model of now().models) {
          const value = figure(model);
          // A value that cannot be measured is omitted, never 0.
          if (value !== null) set({ model: this.#modelLabel(model.id) }, value);
        }
      });
    };

    this.#gauge('svc_build_info', 'Version of the daemon as a label; always 1', ['version'], (set) =>
      set({ version: now().version }, 1),
    );
    this.#gauge('svc_ready', '1 while /readyz answers 200, else 0', [], (set) => set({}, now().ready ? 1 : 0));
    this.#gauge('svc_requests_waiting', 'Requests that no backend has begun to answer', [], (set) =>
      set({}, now().queue.waiting),
    );
    this.#gauge('svc_requests_active', 'Requests in progress at a backend', [], (set) => set({}, now().queue.active));
    perModel('svc_model_requests_waiting', 'Requests waiting for this engine', ({ waiting }) => waiting);
    perModel('svc_model_requests_active', 'Requests in progress in this engine', ({ active }) => active);
    perModel('svc_context_tokens', 'Longest context of a request', (model) => model.context_length);
    perModel('svc_kv_cells_used', 'KV-cache cells held by generations', (model) => model.kv_cells_used);
    perModel('svc_kv_cells_cached', 'KV-cache cells held by cached prefixes', (model) => model.kv_cells_cached);
    perModel('svc_kv_cells_capacity', 'KV-cache cells allocated', (model) => model.kv_cells_total);
    perModel(
      'svc_kv_tokens_swapped',
      'Tokens of cached prefixes swapped out to host memory',
      (model) => model.kv_tokens_swapped,
    );
    perModel('svc_engine_threads', 'Compute threads of this engine', ({ steps }) => steps?.threads ?? null);
    this.#countSteps(now);
    perModel(
      'svc_engine_resident_memory_bytes',
      'Resident memory of this engine process',
      ({ rss_bytes }) => rss_bytes,
    );
    this.#readCounter('svc_engine_crashes_total', 'Engine processes that crashed or hung', () => now().engines.crashes);
    this.#readCounter('svc_engine_restarts_total', 'Engine restarts after a failure', () => now().engines.restarts);
    this.#gauge(
      'svc_provider_state',
      '1 for the current state of the provider, else 0',
      ['provider', 'state'],
      (set) => {
        for (const { name, state } of now().providers)
          for (const each of PROVIDER_STATES) set({ provider: name, state: each }, each === state ? 1 : 0);
      },
    );

    registerProcessMetrics(this.#registry);
  }

  /** Counters that each engine keeps since its model was loaded. They restart at 0 when it is loaded again. */
  #countSteps(now: () => Snapshot): void {
    const count = (name: string, help: string, figure: (steps: StepsHealth) => number): void => {
      const labelOf = (name: string): string => this.#modelLabel(name);
      new Counter({
        name,
        help,
        labelNames: ['model'],
        registers: [this.#registry],
        collect() {
          this.reset();
          for (const { id, steps } of now().models) if (steps !== null) this.inc({ model: labelOf(id) }, figure(steps));
        },
      });
    };
    count('svc_engine_steps_total', 'Engine steps (batches computed by the model)', (steps) => steps.count);
    count('svc_engine_rows_total', 'Batch rows (tokens) computed in all steps', ({ rows }) => rows);
    count('svc_engine_prompt_tokens_total', 'Prompt tokens computed', (steps) => steps.prompt_tokens);
    count(
      'svc_engine_drafted_tokens_total',
      'Draft tokens computed (speculative decoding)',
      (steps) => steps.drafted_tokens,
    );
    count(
      'svc_engine_accepted_tokens_total',
      'Draft tokens accepted (speculative decoding)',
      (steps) => steps.accepted_tokens,
    );
    count(
      'svc_engine_preemptions_total',
      'Preemptions of a generation to free KV-cache cells',
      ({ preemptions }) => preemptions,
    );
    count(
      'svc_engine_evicted_cells_total',
      'KV-cache cells evicted from cached prefixes',
      (steps) => steps.evicted_cells,
    );
    count(
      'svc_engine_predicted_seconds_total',
      'Time of all steps as predicted by the cost model',
      (steps) => steps.predicted_ms / 1000,
    );
    count('svc_engine_step_seconds_total', 'Measured time of all steps', (steps) => steps.spent_ms / 1000);
  }

  #addAliases(): void {
    const now = (): Snapshot => this.#options.snapshot();
    const sum = (figure: (model: LoadedModelHealth) => number | null): number =>
      now().models.reduce((total, model) => total + (figure(model) ?? 0), 0);
    this.#gauge('vllm:num_requests_waiting', 'Alias of svc_requests_waiting', [], (set) =>
      set({}, now().queue.waiting),
    );
    this.#gauge('vllm:num_requests_running', 'Alias of svc_requests_active', [], (set) => set({}, now().queue.active));
    this.#gauge('vllm:kv_cache_usage_perc', 'Fraction of all KV-cache cells held by generations, 0 to 1', [], (set) => {
      const total = sum((model) => model.kv_cells_total);
      set({}, total === 0 ? 0 : sum((model) => model.kv_cells_used) / total);
    });
  }

  #modelLabel(name: string): string {
    if (name.startsWith('file:') || name.startsWith('/')) return 'file';
    if (!this.#models.has(name) && this.#models.size >= MAX_MODELS) return 'other';
    this.#models.add(name);
    return name;
  }

  /** Returns `none` when no key was sent. */
  #keyLabel(name: string | null): string {
    if (name === null) return 'none';
    if (!this.#keys.has(name) && this.#keys.size >= MAX_KEYS) return 'other';
    this.#keys.add(name);
    return name;
  }

  #counter(name: string, help: string, labelNames: readonly string[] = ['provider', 'model']): Counter {
    return new Counter({ name, help, labelNames, registers: [this.#registry] });
  }

  #histogram(name: string, help: string, buckets: number[]): Histogram {
    return new Histogram({ name, help, buckets, labelNames: ['provider', 'model'], registers: [this.#registry] });
  }

  /** Registers a counter whose value another object keeps. */
  #readCounter(name: string, help: string, read: () => number): void {
    new Counter({
      name,
      help,
      registers: [this.#registry],
      collect() {
        this.reset();
        this.inc(read());
      },
    });
  }

  /** Registers a gauge. `read` sets all its values at every scrape; values that it does not set are dropped. */
  #gauge(name: string, help: string, labelNames: readonly string[], read: (set: Set) => void): void {
    new Gauge({
      name,
      help,
      labelNames,
      registers: [this.#registry],
      collect() {
        this.reset();
        // Values of models that share a label are summed.
        read((labels, value) => this.inc(labels, value));
      },
    });
  }
}
