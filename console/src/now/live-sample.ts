import type { ErrorEvent } from '../../../src/protocol/routes.ts';

/** What the daemon does at one moment. */
export interface LiveSample {
  readonly type: 'sample';
  readonly time: string;
  readonly engines: readonly {
    readonly model: string;
    readonly tokens_per_second: number | null;
    readonly prompt_tokens_per_second: number | null;
    readonly ttft_ms: number | null;
    readonly running: number;
    readonly waiting: number;
    readonly cache_cells_used: number | null;
    readonly cache_cells: number | null;
    readonly memory_bytes: number | null;
  }[];
  readonly providers: readonly {
    readonly name: string;
    readonly requests: number;
    readonly tokens_per_second: number | null;
    readonly ttft_ms: number | null;
  }[];
  readonly requests: readonly LiveRequest[];
  readonly daemon: { readonly memory_bytes: number | null; readonly uptime_s: number };
}

export interface LiveRequest {
  readonly id: string;
  readonly model: string;
  readonly kind: string;
  readonly key: string | null;
  readonly started: string;
  readonly state: 'waiting' | 'running';
  readonly output_tokens: number;
}

export type LiveEvent = LiveSample | ErrorEvent;
