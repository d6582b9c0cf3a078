/** Every path the daemon answers, and what travels on the control socket. */
import type { ErrorCode, ErrorRecord } from './errors.ts';
import type { GenerateEvent, RouteEvent } from './generate.ts';
import type { ModelRecord } from './records.ts';

/** TCP and the control socket. */
export const HTTP_ROUTES = {
  livez: '/livez',
  readyz: '/readyz',
  health: '/v1/runtime/health',
  metrics: '/metrics',
  ollamaPull: '/api/pull',
  chatCompletions: '/v1/chat/completions',
  embeddings: '/v1/embeddings',
  models: '/v1/models',
} as const;

/**
 * The control socket only; TCP answers 404. All are POST with a JSON body but the GETs named so.
 * Answers are JSON records; `generate` and `load` stream one JSON value a line (NDJSON).
 */
export const CONTROL_ROUTES = {
  /** GET → StatusRecord. */
  status: '/control/status',
  /** StopRequest → 202 `{}`; the daemon drains and exits. */
  stop: '/control/stop',
  /** `{"drain": boolean}` → DrainRecord: nothing new is taken, or is again; the daemon stays. */
  drain: '/control/drain',
  /** `{}` → ReloadRecord: the config is read again. */
  reload: '/control/reload',
  /** GenerateRequest → ControlEvent lines. `model` may be `file:/absolute/path.gguf` here only. */
  generate: '/control/generate',
  /** GET → `{"models": ModelRecord[]}`, with what is loaded. */
  models: '/control/models',
  /** `{"model"}` with LoadWishes → LoadEvent lines. */
  load: '/control/models/load',
  /** `{"model"}` → `{}`. */
  unload: '/control/models/unload',
  /** PullRequest → PullEvent lines. */
  pull: '/control/models/pull',
  /** GET → `{"providers": ProviderRecord[]}`. */
  providers: '/control/providers',
  /** `{"provider"}` → `{"models": string[]}`: the provider is asked. */
  providerModels: '/control/providers/models',
  /** `{"provider"}` → ProviderTestEvent lines. */
  providerTest: '/control/providers/test',
  /** `{"provider", "key"}` → `{}`: a key in memory, until the daemon ends. */
  providerKey: '/control/providers/key',
} as const;

export interface StopRequest {
  /** Milliseconds that running generations may still take. */
  readonly drain_timeout_ms: number;
}

export interface LoadWishes {
  /** Tokens that its context has at least. Absent: the default. */
  readonly context_length?: number;
  /** How long it stays after its last use; -1, the default: until it is unloaded, or its memory is needed. */
  readonly keep_alive_seconds?: number;
  /** It stays, whoever needs its memory. */
  readonly pin?: boolean;
}

export interface DrainRecord {
  readonly draining: boolean;
  /** Generations that are being answered. */
  readonly active: number;
  /** Generations that nobody has begun to answer; they were taken before. */
  readonly waiting: number;
}

/** Names of settings, `section.key`. */
export interface ReloadRecord {
  /** Changed, and in force from now on. */
  readonly applied: readonly string[];
  /** Other than what the daemon was started with; in force after its next start. */
  readonly restart_needed: readonly string[];
}

/** One thing that `svc provider test` looked at. */
export interface ProviderTestStep {
  readonly step: 'key' | 'dns' | 'connect' | 'models' | 'answer';
  readonly status: 'ok' | 'fail' | 'skip';
  /** `host:port`, where it is about one. */
  readonly endpoint: string | null;
  readonly detail: string;
  readonly latency_ms: number | null;
  /** Of the error that it failed with. */
  readonly code: ErrorCode | null;
}

export type ProviderTestEvent =
  ({ readonly type: 'step' } & ProviderTestStep) | { readonly type: 'tested' } | ErrorEvent;

/** What a pull needs to know beyond the name; the daemon's own environment tells what is absent. */
export interface PullRequest {
  /** As a person types it. */
  readonly model: string;
  /** For a URL: 64 hexadecimal digits. */
  readonly sha256?: string;
  readonly hub?: { readonly endpoint: string; readonly token: string | null; readonly is_offline: boolean };
}

export type PullEvent =
  /** What it turned out to be; `present_bytes` are here already. */
  | {
      readonly type: 'resolved';
      readonly model: string;
      readonly source: string;
      readonly files: readonly { readonly name: string; readonly size_bytes: number; readonly digest: string }[];
      readonly total_bytes: number;
      readonly present_bytes: number;
    }
  | {
      readonly type: 'progress';
      readonly done_bytes: number;
      readonly total_bytes: number;
      /** What came over the network by now, that which could not be kept too. */
      readonly fetched_bytes: number;
      /** Of the last seconds; null: nothing came yet. */
      readonly bytes_per_second: number | null;
    }
  /** It goes on by itself. */
  | { readonly type: 'waiting'; readonly reason: string; readonly pause_ms: number | null }
  | { readonly type: 'pulled'; readonly model: ModelRecord; readonly fetched_bytes: number }
  | ErrorEvent;

export interface ErrorEvent {
  readonly type: 'error';
  /** Stands in the log line too. */
  readonly id: string;
  readonly error: ErrorRecord;
}

export type ControlEvent = RouteEvent | GenerateEvent | ErrorEvent;

export type LoadEvent =
  | { readonly type: 'progress'; readonly fraction: number }
  | { readonly type: 'loaded'; readonly model: string; readonly pid: number; readonly context_length: number }
  | ErrorEvent;
