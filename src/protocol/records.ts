/** The records that commands print and endpoints answer: one type each, snake_case as on the wire. */

export type CheckStatus = 'ok' | 'warn' | 'fail';
export type State = 'STOPPED' | 'STARTING' | 'READY' | 'DEGRADED' | 'STOPPING';

export const CONDITION_NAMES = [
  'listeners',
  'config',
  'model_store',
  'engine',
  'disk_space',
  'storage',
  'memory',
  'providers',
  'api_keys',
] as const;
export type ConditionName = (typeof CONDITION_NAMES)[number];

export interface Condition {
  readonly name: ConditionName;
  readonly status: CheckStatus;
  readonly reason: string;
  /** RFC 3339, when the status last changed. */
  readonly since: string;
}

export interface DeviceRecord {
  readonly name: string;
  readonly backend: string;
  readonly type: 'cpu' | 'gpu' | 'igpu' | 'accel';
  readonly memory_total_bytes: number | null;
  readonly memory_free_bytes: number | null;
}

/** What an engine has done since its model was loaded. */
export interface StepsHealth {
  /** Calls of the model, each over the rows of all sequences. */
  readonly count: number;
  readonly rows: number;
  /** Of prompts: computed, and taken from the cache instead. */
  readonly prompt_tokens: number;
  readonly cached_tokens: number;
  readonly generated_tokens: number;
  /** Computed before it was known that they would be said; and those of them that were. */
  readonly drafted_tokens: number;
  readonly accepted_tokens: number;
  /** Generations that made way for others and went on later; cells of prefixes that were given up. */
  readonly preemptions: number;
  readonly evicted_cells: number;
  /** What the steps should have taken by the engine's own model of their cost, and what they took; to a tenth. */
  readonly predicted_ms: number;
  readonly spent_ms: number;
  /** That compute now. */
  readonly threads: number;
}

/** One loaded (or loading) model in the health record. */
export interface LoadedModelHealth {
  readonly id: string;
  readonly state: 'loading' | 'loaded' | 'failed';
  readonly pid: number | null;
  readonly rss_bytes: number | null;
  readonly context_length: number | null;
  readonly active: number;
  readonly waiting: number;
  readonly kv_cells_used: number | null;
  readonly kv_cells_cached: number | null;
  readonly kv_cells_total: number | null;
  readonly kv_tokens_swapped: number | null;
  readonly tokens_per_second: number | null;
  readonly steps: StepsHealth | null;
}

export interface ProviderHealth {
  readonly name: string;
  readonly state: ProviderState;
  readonly reason: string | null;
  readonly consecutive_failures: number;
  readonly last_checked_at: string | null;
  readonly last_changed_at: string | null;
}

/** `GET /v1/runtime/health`; `svc health`. What cannot be measured is null, never 0. */
export interface HealthRecord {
  readonly status: 'ready' | 'not_ready';
  readonly state: State;
  readonly reason: string | null;
  readonly version: string;
  readonly pid: number;
  readonly started_at: string;
  readonly uptime_seconds: number;
  readonly sampled_at: string;
  readonly conditions: readonly Condition[];
  readonly queue: { readonly waiting: number; readonly active: number; readonly limit: number };
  readonly resources: {
    /** Of one core, of the daemon and its engines together, since the last sample. */
    readonly cpu_percent: number | null;
    /** Of the daemon and its engines together. */
    readonly rss_bytes: number | null;
    readonly system_memory_available_bytes: number | null;
    readonly devices: readonly Pick<DeviceRecord, 'name' | 'backend' | 'memory_total_bytes' | 'memory_free_bytes'>[];
  };
  readonly models: readonly LoadedModelHealth[];
  readonly providers: readonly ProviderHealth[];
}

/** Who watches the health record is told of a change at once, and of figures, which change all the time, this often. */
export const FIGURES_MS = 10_000;

export interface ReadyRecord {
  readonly status: 'ready' | 'not_ready';
  readonly state: State;
  readonly conditions: readonly Condition[];
}

/** How the previous daemon ended. */
export interface LastExit {
  readonly code: number | null;
  readonly signal: string | null;
  readonly at: string;
  readonly reason: string;
}

/** `svc status --json`. */
export interface StatusRecord {
  readonly state: State;
  readonly pid: number | null;
  readonly mode: 'background' | 'foreground' | 'service' | null;
  readonly version: string | null;
  readonly http: string | null;
  readonly grpc: string | null;
  readonly socket: string;
  readonly log_path: string;
  readonly started_at: string | null;
  readonly uptime_seconds: number | null;
  readonly models: readonly LoadedModelHealth[];
  readonly last_exit: LastExit | null;
}

export type ModelState = 'available' | 'pulling' | 'installed' | 'loading' | 'loaded' | 'failed';
export type Capability = 'chat' | 'completion' | 'embedding' | 'rerank' | 'tools' | 'vision';

/** `svc model list|show --json`. */
export interface ModelRecord {
  readonly id: string;
  readonly aliases: readonly string[];
  /** Where it came from: `builtin`, `file`, `hf:…`, `ollama:…`, an https URL, `quantized:ID`. */
  readonly source: string;
  /** Of a model in parts: of the first. */
  readonly path: string;
  /** `sha256:…`; null until it has been computed. Of a model in parts: of the list of their digests. */
  readonly digest: string | null;
  readonly size_bytes: number;
  /** What a model that sees needs besides, where one came with it. */
  readonly projector?: { readonly path: string; readonly digest: string; readonly size_bytes: number };
  readonly format: 'gguf';
  readonly architecture: string | null;
  readonly parameters: number | null;
  readonly quantization: string | null;
  /** What the model was trained for, in tokens. */
  readonly context_length: number | null;
  readonly capabilities: readonly Capability[];
  readonly license: string | null;
  readonly state: ModelState;
  readonly default: boolean;
  readonly builtin: boolean;
  readonly modified_at: string;
  readonly loaded: LoadedModel | null;
}

export interface LoadedModel {
  readonly pid: number;
  readonly device: string;
  readonly context_length: number;
  readonly memory_bytes: number | null;
  readonly active: number;
  readonly expires_at: string | null;
}

/** What a model would take of memory with a context of this length; `svc model show --json` has some. */
export interface ModelMemory {
  readonly context_length: number;
  /** The daemon loads it with this one, as long as it fits. */
  readonly default: boolean;
  /** The host first. */
  readonly devices: readonly {
    readonly name: string;
    readonly weights_bytes: number;
    readonly cache_bytes: number;
    readonly compute_bytes: number;
    /** Of the engine process, beside all that. */
    readonly process_bytes: number;
    readonly total_bytes: number;
    /** null: not known. */
    readonly free_bytes: number | null;
  }[];
}

export type ProviderState = 'unknown' | 'healthy' | 'unhealthy' | 'unconfigured';

/** `svc provider list --json`. A key never stands in it. */
export interface ProviderRecord {
  readonly name: string;
  readonly kind: 'local' | 'openai' | 'anthropic' | 'gemini' | 'openai_compatible';
  readonly base_url: string | null;
  readonly endpoints: readonly string[];
  readonly default_model: string | null;
  readonly credential: {
    /** `memory`: lent to the running daemon, until it ends. `none`: it needs no key. */
    readonly source: 'env' | 'file' | 'keyring' | 'memory' | 'none';
    readonly name: string | null;
    readonly present: boolean;
  };
  readonly enabled: boolean;
  readonly default_cloud: boolean;
  readonly state: ProviderState;
  readonly last_checked_at: string | null;
  readonly last_error: string | null;
}

/** `svc version --json`. */
export interface VersionRecord {
  readonly version: string;
  readonly commit: string | null;
  readonly node: string;
  readonly platform: string;
  readonly arch: string;
  readonly addon: {
    readonly path: string | null;
    readonly built_for: string | null;
    readonly llama_cpp: string | null;
    readonly backends: readonly string[];
    readonly error: string | null;
  };
}
