/** The records that commands print and endpoints return: one type each, snake_case as on the wire. */

import type { ModelSettings } from './model/settings.ts';

export type CheckStatus = 'ok' | 'warn' | 'fail';
export type State = 'STOPPED' | 'STARTING' | 'READY' | 'DEGRADED' | 'STOPPING';

export const CONDITION_NAMES = [
  'version',
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
  /** RFC 3339: when the status last changed. */
  readonly since: string;
}

export interface DeviceRecord {
  readonly name: string;
  readonly backend: string;
  readonly type: 'cpu' | 'gpu' | 'igpu' | 'accel';
  readonly memory_total_bytes: number | null;
  readonly memory_free_bytes: number | null;
}

/** Counters of an engine since its model was loaded. */
export interface StepsHealth {
  /** Forward passes, each over a batch with rows of all sequences. */
  readonly count: number;
  readonly rows: number;
  /** Prompt tokens computed. `cached_tokens`: prompt tokens taken from the prefix cache. */
  readonly prompt_tokens: number;
  readonly cached_tokens: number;
  readonly generated_tokens: number;
  /** Draft tokens verified in a batch (speculative decoding). `accepted_tokens`: those accepted. */
  readonly drafted_tokens: number;
  readonly accepted_tokens: number;
  /** Generations preempted and resumed later. `evicted_cells`: KV-cache cells of cached prefixes evicted. */
  readonly preemptions: number;
  readonly evicted_cells: number;
  /** Time of the steps: predicted by the engine's cost model, and measured (`spent_ms`). One decimal. */
  readonly predicted_ms: number;
  readonly spent_ms: number;
  /** Compute threads in use now. */
  readonly threads: number;
}

/** One loaded (or loading) model in the health record. */
export interface LoadedModelHealth {
  readonly id: string;
  readonly state: 'loading' | 'loaded' | 'failed';
  readonly pid: number | null;
  readonly rss_bytes: number | null;
  /** Longest context of a request, in tokens; for embedding models the longest input. */
  readonly context_length: number | null;
  /** Type of the cached keys and values; null for embedding models. */
  readonly cache_type: 'f16' | 'q8_0' | null;
  readonly active: number;
  readonly waiting: number;
  readonly kv_cells_used: number | null;
  readonly kv_cells_cached: number | null;
  /** Allocated; grows up to `context_length` when a request needs it. */
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

/** `GET /v1/runtime/health`; `svc health`. A value that cannot be measured is null, never 0. */
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
    /** Daemon and engines together, since the last sample; 100 is one core. */
    readonly cpu_percent: number | null;
    /** Daemon and engines together. */
    readonly rss_bytes: number | null;
    readonly system_memory_available_bytes: number | null;
    readonly devices: readonly Pick<DeviceRecord, 'name' | 'backend' | 'memory_total_bytes' | 'memory_free_bytes'>[];
  };
  readonly models: readonly LoadedModelHealth[];
  readonly providers: readonly ProviderHealth[];
}

/** Watchers of the health record get state changes at once, and fresh figures at this interval. */
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

/** How long a loaded model stays, as a load request says it. */
export interface ModelLoad {
  readonly model: string;
  readonly keep_alive_seconds?: number;
  readonly pin?: boolean;
  readonly briefly?: boolean;
}

/** `svc status --json`. */
export interface StatusRecord {
  readonly state: State;
  readonly pid: number | null;
  readonly mode: 'background' | 'foreground' | 'service' | null;
  readonly version: string | null;
  /** Version that is installed where the daemon was started from. null: no daemon, or its files are gone. */
  readonly installed_version: string | null;
  readonly http: string | null;
  readonly grpc: string | null;
  /** Second HTTP listener, for Ollama's clients. null: not configured. */
  readonly ollama: string | null;
  readonly socket: string;
  readonly log_path: string;
  readonly started_at: string | null;
  readonly uptime_seconds: number | null;
  readonly models: readonly LoadedModelHealth[];
  /** Loads after which the same models would be in memory, to stay as long as now. */
  readonly loads: readonly ModelLoad[];
  readonly last_exit: LastExit | null;
}

export type ModelState = 'available' | 'pulling' | 'installed' | 'loading' | 'loaded' | 'failed';
/**
 * `tools`, `thinking`, `vision` and `audio` are found by a load; the others are declared by the model's file, and
 * confirmed by a load.
 */
export type Capability = 'chat' | 'completion' | 'embedding' | 'rerank' | 'tools' | 'thinking' | 'vision' | 'audio';

/** The capabilities that every load tries, with the model's own template and files. */
export const TRIED_CAPABILITIES = [
  'embedding',
  'rerank',
  'tools',
  'thinking',
  'vision',
  'audio',
] as const satisfies readonly Capability[];
export type TriedCapability = (typeof TRIED_CAPABILITIES)[number];

/** Tried, but declared by the model's file. */
const DECLARED: ReadonlySet<Capability> = new Set(['embedding', 'rerank']);

/** What a load has found, by the engine's names. */
export interface LoadFindings {
  readonly makes_embeddings: boolean;
  /** Scores, not embeddings. */
  readonly ranks: boolean;
  readonly calls_tools: boolean;
  readonly thinks: boolean;
  readonly sees: boolean;
  readonly hears: boolean;
}

function isTried(capability: Capability): boolean {
  return TRIED_CAPABILITIES.some((each) => each === capability);
}

export function foundBy(found: LoadFindings): TriedCapability[] {
  const { makes_embeddings, ranks, calls_tools, thinks, sees, hears } = found;
  const isFound = {
    embedding: makes_embeddings && !ranks,
    rerank: ranks,
    tools: calls_tools,
    thinking: thinks,
    vision: sees,
    audio: hears,
  };
  return TRIED_CAPABILITIES.filter((each) => isFound[each]);
}

/** The fields of a model's record after a load. `before`: its record by the file, or after an earlier load. */
export function triedFields(
  before: readonly Capability[],
  found: readonly TriedCapability[],
): { readonly capabilities: Capability[]; readonly capabilities_tried: true } {
  // A load confirms what the file declares, and adds to it only what no file declares.
  const isConfirmed = (each: Capability): boolean => DECLARED.has(each) && found.some((one) => one === each);
  const kept = before.filter((each) => !isTried(each) || isConfirmed(each));
  return {
    capabilities: [...kept, ...found.filter((each) => !DECLARED.has(each))],
    capabilities_tried: true,
  };
}

/** `svc model list|show --json`. */
export interface ModelRecord {
  readonly id: string;
  readonly aliases: readonly string[];
  /**
   * Id of the installed model that this name of the config (`models.NAME`) is made from. Absent: an installed model.
   */
  readonly from?: string;
  /** Settings of the config for this name, and of the names that it is made from. Absent: none. */
  readonly settings?: ModelSettings;
  /** Origin: `builtin`, `file`, `hf:…`, `ollama:…`, an https URL, `quantized:ID`. */
  readonly source: string;
  /** Model in parts: path of the first part. */
  readonly path: string;
  /** `sha256:…`; null until computed. Model in parts: digest of the list of the parts' digests. */
  readonly digest: string | null;
  readonly size_bytes: number;
  /** Projector, with which the model sees or hears: installed with it, or found beside its file. */
  readonly projector?: {
    readonly path: string;
    /** null: not computed. */
    readonly digest: string | null;
    readonly size_bytes: number;
  };
  /** LoRA adapters that requests may choose, in the order in which they were added. Absent: none. */
  readonly adapters?: readonly ModelAdapter[];
  readonly format: 'gguf';
  readonly architecture: string | null;
  readonly parameters: number | null;
  readonly quantization: string | null;
  /** Training context length, in tokens. */
  readonly context_length: number | null;
  readonly capabilities: readonly Capability[];
  /** False if this version of svc has not loaded this file yet: `capabilities` is then what the file declares. */
  readonly capabilities_tried: boolean;
  readonly license: string | null;
  readonly state: ModelState;
  readonly default: boolean;
  readonly builtin: boolean;
  readonly modified_at: string;
  readonly loaded: LoadedModel | null;
}

/** A LoRA adapter of a model. */
export interface ModelAdapter {
  readonly id: string;
  readonly path: string;
  readonly size_bytes: number;
  /**
   * Why it cannot be used, as found by the store or by a load; continues "the adapter X …". Absent: no fault is known.
   */
  readonly error?: string;
}

export interface LoadedModel {
  readonly pid: number;
  readonly device: string;
  /** As in LoadedModelHealth. */
  readonly context_length: number;
  readonly cache_type: 'f16' | 'q8_0' | null;
  readonly memory_bytes: number | null;
  readonly placement: ModelPlacement | null;
  readonly active: number;
  readonly expires_at: string | null;
}

/** Where a loaded model is: as configured, or as chosen to fit in memory. */
export interface ModelPlacement {
  /** Layers of the model, and one for its output. */
  readonly layers: number;
  /** How many of these are on GPUs. */
  readonly gpu_layers: number;
  /** Layers whose experts are in host memory although the layers may be on a GPU, from the first layer on. */
  readonly cpu_experts: number;
  /** Memory that was planned for the load on each device, the host first. */
  readonly devices: readonly { readonly name: string; readonly memory_bytes: number }[];
}

/** Estimated memory of a model at one context length; `svc model show --json` lists several. */
export interface ModelMemory {
  readonly context_length: number;
  /** True for the number of cells that the daemon loads the model with, if they fit; they may grow. */
  readonly default: boolean;
  /** The host first. */
  readonly devices: readonly {
    readonly name: string;
    readonly weights_bytes: number;
    readonly cache_bytes: number;
    readonly compute_bytes: number;
    /** The rest of the engine process. */
    readonly process_bytes: number;
    readonly total_bytes: number;
    /** null: unknown. */
    readonly free_bytes: number | null;
  }[];
}

export type ProviderState = 'unknown' | 'healthy' | 'unhealthy' | 'unconfigured';

/** `svc provider list --json`. Never contains a key. */
export interface ProviderRecord {
  readonly name: string;
  readonly kind: 'local' | 'openai' | 'anthropic' | 'gemini' | 'openai_compatible';
  readonly base_url: string | null;
  readonly endpoints: readonly string[];
  readonly default_model: string | null;
  /** Default model for embeddings. */
  readonly embedding_model: string | null;
  readonly credential: {
    /** `memory`: given to the running daemon, lost when it exits. `none`: the provider needs no key. */
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
  /** The running daemon. null: none answers. */
  readonly daemon: Pick<StatusRecord, 'pid' | 'version' | 'installed_version'> | null;
  readonly commit: string | null;
  readonly node: string;
  readonly platform: string;
  readonly arch: string;
  readonly addon: {
    readonly path: string | null;
    readonly built_for: string | null;
    readonly llama_cpp: string | null;
    readonly backends: readonly string[];
    /** Why it cannot be loaded, and how to fix that. */
    readonly error: string | null;
    readonly hint: string | null;
  };
}
