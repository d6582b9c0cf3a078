/** All HTTP paths of the daemon, and the messages of the control socket. */
import type { EmbedEvent, VectorsEvent } from './embed.ts';
import type { ErrorCode, ErrorRecord } from './errors.ts';
import type { AnswerEvent, RouteEvent } from './generate.ts';
import type { ModelRecord } from './records.ts';
import type { RerankEvent } from './rerank.ts';

/** TCP and the control socket. */
export const HTTP_ROUTES = {
  livez: '/livez',
  readyz: '/readyz',
  health: '/v1/runtime/health',
  /** GET → `{"models": ModelRecord[]}`, with their `loaded` state. */
  runtimeModels: '/v1/runtime/models',
  /** GenerateRequest → GenerateLine lines. `model` may be `file:/absolute/path.gguf`, on the control socket only. */
  runtimeGenerate: '/v1/runtime/generate',
  /** EmbedRequest → EmbedLine lines; `model` as above. */
  runtimeEmbed: '/v1/runtime/embed',
  /** RerankRequest → RerankLine lines; `model` as above. */
  runtimeRerank: '/v1/runtime/rerank',
  /** GET → StatusRecord. */
  runtimeStatus: '/v1/runtime/status',
  /** GET → `{"providers": ProviderRecord[]}`. */
  runtimeProviders: '/v1/runtime/providers',
  /** GET → `{"models": CatalogueModel[]}`. */
  runtimeCatalogue: '/v1/runtime/catalogue',
  /** `{"model"}` with LoadWishes → LoadEvent lines. */
  runtimeLoad: '/v1/runtime/load',
  /** `{"model"}` → `{}`. */
  runtimeUnload: '/v1/runtime/unload',
  /** PullRequest without `hub` → PullEvent lines. */
  runtimePull: '/v1/runtime/pull',
  /** QuantizeWishes → QuantizeEvent lines. */
  runtimeQuantize: '/v1/runtime/quantize',
  /** `{"model"}` → lines of VerifyEvent, then VerifyResult. */
  runtimeVerify: '/v1/runtime/verify',
  /** ImportWishes → ImportEvent lines. */
  runtimeImport: '/v1/runtime/import',
  /** `{"model"}` → `{}`; as `svc model rm --yes`. */
  runtimeRemove: '/v1/runtime/remove',
  /** `{"model"}` → `{}`; as `svc model default`. */
  runtimeDefault: '/v1/runtime/default',
  /** GET `?interval_ms=1000&count=N` → LiveEvent lines. */
  runtimeLive: '/v1/runtime/live',
  /** `{"id"}` → `{}`: ends a request that is being answered. */
  runtimeCancel: '/v1/runtime/requests/cancel',
  /** GET `?tail=500&follow=1&request=ID&level=LEVEL` → LogEvent lines. */
  runtimeLogs: '/v1/runtime/logs',
  /** GET → DoctorRecord. */
  runtimeDoctor: '/v1/runtime/doctor',
  /** GET `?days=30&by=key` → `{"usage": UsageRecord[]}`. */
  runtimeUsage: '/v1/runtime/usage',
  /** GET → `{"keys": ShownKey[]}`; POST KeyWishes → NewKey. */
  runtimeKeys: '/v1/runtime/keys',
  /** `{"name"}` → `{}`. */
  runtimeKeysRemove: '/v1/runtime/keys/remove',
  /** `{"token"}`, which the page has taken out of its address → SessionKey. */
  signIn: '/v1/runtime/sign-in',
  metrics: '/metrics',
  /** The console for browsers; for other programs the line by which they find Ollama's API. */
  root: '/',
  /** `*`: a file of the console's page. */
  consoleFile: '/console/*',
  ollamaVersion: '/api/version',
  ollamaTags: '/api/tags',
  ollamaPs: '/api/ps',
  ollamaShow: '/api/show',
  ollamaChat: '/api/chat',
  ollamaGenerate: '/api/generate',
  ollamaEmbed: '/api/embed',
  ollamaEmbeddings: '/api/embeddings',
  ollamaPull: '/api/pull',
  ollamaCopy: '/api/copy',
  ollamaCreate: '/api/create',
  ollamaDelete: '/api/delete',
  chatCompletions: '/v1/chat/completions',
  messages: '/v1/messages',
  countTokens: '/v1/messages/count_tokens',
  responses: '/v1/responses',
  /** `*`: id of a response. */
  response: '/v1/responses/*',
  responseInputItems: '/v1/responses/*/input_items',
  responseInputTokens: '/v1/responses/input_tokens',
  responseCancel: '/v1/responses/*/cancel',
  transcriptions: '/v1/audio/transcriptions',
  embeddings: '/v1/embeddings',
  completions: '/v1/completions',
  rerankV1: '/v1/rerank',
  rerankV2: '/v2/rerank',
  rerank: '/rerank',
  models: '/v1/models',
  tokenize: '/tokenize',
  detokenize: '/detokenize',
  applyTemplate: '/apply-template',
  llamaCompletion: '/completion',
  infill: '/infill',
  llamaHealth: '/health',
  props: '/props',
} as const;

/**
 * Control socket only; TCP answers 404. All are POST with a JSON body, except those marked GET.
 * Responses are JSON records; those that list "lines" stream NDJSON.
 */
export const CONTROL_ROUTES = {
  /** GET → StatusRecord. */
  status: '/control/status',
  /**
   * `{"drain_timeout_ms"}`, the time that running generations have to finish → 202 `{}`; the daemon drains and exits.
   */
  stop: '/control/stop',
  /** `{"drain": boolean}` → DrainRecord: stops (or resumes) accepting requests; the daemon stays up. */
  drain: '/control/drain',
  /** `{}` → ReloadRecord: the config is read again. */
  reload: '/control/reload',
  /** `{"model"}` with LoadWishes → LoadEvent lines. */
  load: '/control/models/load',
  /** `{"model"}` → `{}`. */
  unload: '/control/models/unload',
  /** PullRequest → PullEvent lines. */
  pull: '/control/models/pull',
  /** GET → `{"providers": ProviderRecord[]}`. */
  providers: '/control/providers',
  /** `{"provider"}` → `{"models": string[]}`: asks the provider. */
  providerModels: '/control/providers/models',
  /** `{"provider"}` → ProviderTestEvent lines. */
  providerTest: '/control/providers/test',
  /** `{"provider", "key"}` → `{}`: keeps a key in memory until the daemon exits. */
  providerKey: '/control/providers/key',
  /** `{"file"}` → ConsoleLink. */
  consoleLink: '/control/console/link',
} as const;

export interface LoadWishes {
  /** Minimum context length, in tokens. Absent: the default. */
  readonly context_length?: number;
  /** How long the model stays loaded after its last use; -1 (default): until unloaded or evicted for memory. */
  readonly keep_alive_seconds?: number;
  /** true: never evicted for memory. */
  readonly pin?: boolean;
  /**
   * true: as after a request that names the model: it stays for its own keep-alive, unless `keep_alive_seconds` is
   * given, and is not restarted after a crash.
   */
  readonly briefly?: boolean;
}

export interface DrainRecord {
  readonly draining: boolean;
  /** Generations running. */
  readonly active: number;
  /** Generations accepted before the drain and not started yet. */
  readonly waiting: number;
}

/** Names of settings, `section.key`. */
export interface ReloadRecord {
  /** Changed and now in effect. */
  readonly applied: readonly string[];
  /** Changed since the daemon's start; takes effect at its next start. */
  readonly restart_needed: readonly string[];
}

/** One check of `svc provider test`. */
export interface ProviderTestStep {
  readonly step: 'key' | 'dns' | 'connect' | 'models' | 'answer';
  readonly status: 'ok' | 'fail' | 'skip';
  /** `host:port`, if the check concerns one endpoint. */
  readonly endpoint: string | null;
  readonly detail: string;
  readonly latency_ms: number | null;
  /** Code of the error that the check failed with. */
  readonly code: ErrorCode | null;
}

export type ProviderTestEvent =
  ({ readonly type: 'step' } & ProviderTestStep) | { readonly type: 'tested' } | ErrorEvent;

/** How far work on bytes has come. */
export interface BytesDone {
  readonly done_bytes: number;
  readonly total_bytes: number;
  /** Average over the last seconds; null: not known yet. */
  readonly bytes_per_second: number | null;
}

/** The hub that models are pulled from. */
export interface HubSettings {
  /** https://huggingface.co unless configured otherwise. */
  readonly endpoint: string;
  readonly token: string | null;
  /** True: no requests to a hub. */
  readonly is_offline: boolean;
}

/** A pull and its settings; absent ones come from the daemon's own environment. */
export interface PullRequest {
  /** Model name as the user typed it. */
  readonly model: string;
  /** Only for URLs: 64 hexadecimal digits. */
  readonly sha256?: string;
  readonly hub?: HubSettings;
}

export type PullEvent =
  /** The model's files. `present_bytes`: downloaded before. */
  | {
      readonly type: 'resolved';
      readonly model: string;
      readonly source: string;
      readonly files: readonly { readonly name: string; readonly size_bytes: number; readonly digest: string }[];
      readonly total_bytes: number;
      readonly present_bytes: number;
    }
  /** `fetched_bytes`: received so far, including those discarded. */
  | ({ readonly type: 'progress'; readonly fetched_bytes: number } & BytesDone)
  /** The pull retries by itself. */
  | { readonly type: 'waiting'; readonly reason: string; readonly pause_ms: number | null }
  | { readonly type: 'pulled'; readonly model: ModelRecord; readonly fetched_bytes: number }
  | ErrorEvent;

export interface ErrorEvent {
  readonly type: 'error';
  /** Id of the request, also in its log line. */
  readonly id: string;
  readonly error: ErrorRecord;
}

/** Lines of the answers of `/v1/runtime/*`. An empty line only keeps the connection alive. */
export type GenerateLine = AnswerEvent | ErrorEvent;
export type RerankLine = RouteEvent | RerankEvent | ErrorEvent;
/** As EmbedEvent, but each vector is base64 of its 32-bit floats, little-endian. */
export type EmbedLine =
  | RouteEvent
  | Exclude<EmbedEvent, VectorsEvent>
  | { readonly type: 'vectors'; readonly vectors: readonly string[] }
  | ErrorEvent;

export type LoadEvent =
  /** `fraction` of the model's file, from 0 to 1. */
  | ({ readonly type: 'progress'; readonly fraction: number } & BytesDone)
  | { readonly type: 'loaded'; readonly model: string; readonly pid: number; readonly context_length: number }
  | ErrorEvent;
