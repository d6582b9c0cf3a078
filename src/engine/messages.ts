/**
 * The messages between the daemon and an engine process. frames.ts carries them, frame-checks.ts validates the
 * engine's.
 */
import type { SandboxReport } from '../process/addon.ts';
import type { ErrorRecord } from '../protocol/errors.ts';
import type { TokensEvent } from '../protocol/tokenize.ts';
import type {
  Addon,
  CellDemand,
  EngineDetokenizeRequest,
  EngineEmbedRequest,
  EngineInfo,
  EngineOutput,
  EngineRequest,
  EngineRerankRequest,
  EngineTokenizeRequest,
  NativeDevice,
  NativeLoadOptions,
  NativeMemoryEstimates,
  NativeQuantizeOptions,
  NativeStats,
} from './addon.ts';

/** Progress of request preparation on worker threads: chat template, tokens, grammar. */
export interface SubmitProgress {
  /** Requests prepared or refused since the start. */
  readonly done: number;
  /** Id of the request in preparation the longest, those with pictures and sounds left out; null: none. */
  readonly oldest: number | null;
}

interface LoadTask {
  /** For the process title and the log. */
  readonly model: string;
  readonly path: string;
  readonly options: NativeLoadOptions;
  /** Directory of the GPU driver's shader cache; absent: no cache. */
  readonly shaderFolder?: string | undefined;
  /** The child dies with this process. */
  readonly parentPid: number;
}

export type ToEngine =
  | ({ readonly type: 'load' } & LoadTask)
  /** Asks for the memory of a load with these options at each context length; 0: the default. */
  | ({ readonly type: 'estimate'; readonly contextLengths: readonly number[] } & LoadTask)
  | { readonly type: 'probe'; readonly measure: boolean; readonly parentPid: number }
  | { readonly type: 'quantize'; readonly options: NativeQuantizeOptions; readonly parentPid: number }
  /** Enters the sandbox and attempts what it forbids. */
  | { readonly type: 'try_sandbox'; readonly parentPid: number }
  | { readonly type: 'generate'; readonly request: EngineRequest }
  | { readonly type: 'embed'; readonly request: EngineEmbedRequest<readonly number[]> }
  | { readonly type: 'rerank'; readonly request: EngineRerankRequest }
  | { readonly type: 'tokenize'; readonly request: EngineTokenizeRequest }
  | { readonly type: 'detokenize'; readonly request: EngineDetokenizeRequest }
  | { readonly type: 'cancel'; readonly id: number }
  | { readonly type: 'pause'; readonly id: number }
  | { readonly type: 'resume'; readonly id: number }
  /** Answer to `wants_cells`: the KV cache may have so many cells. `refusal`: why they are too few; else empty. */
  | { readonly type: 'grant_cells'; readonly cells: number; readonly refusal: string }
  /** New size limit of the prefix files; 0: writes no more. */
  | { readonly type: 'prefix_bytes'; readonly bytes: number }
  /** Ends all generations, frees the model and exits with 0. */
  | { readonly type: 'close' };

export type FromEngine =
  /** Answer to `estimate`: the figures, or the error. */
  | { readonly type: 'estimated'; readonly estimates: NativeMemoryEstimates }
  | { readonly type: 'not_estimated'; readonly error: ErrorRecord }
  | { readonly type: 'progress'; readonly fraction: number }
  /** The model is in memory and has produced one token, vector or score. */
  | { readonly type: 'loaded'; readonly info: EngineInfo }
  /** The model could not be loaded or quantized; the process exits. */
  | { readonly type: 'failed'; readonly error: ErrorRecord }
  /** The engine accepted a generation; its outputs follow. A refused one gets an output with an error instead. */
  | { readonly type: 'accepted'; readonly id: number; readonly inputTokens: number }
  /** A generation has outgrown the KV cache and waits for `grant_cells`. One demand at a time. */
  | ({ readonly type: 'wants_cells' } & CellDemand)
  /** Vectors of a request's next inputs, concatenated; scores are vectors of one number. */
  | { readonly type: 'vectors'; readonly id: number; readonly vectors: Float32Array }
  /** All tokens of a request to tokenize; its end follows in a step. -1: a row of a picture or sound. */
  | ({ readonly type: 'tokens'; readonly id: number } & Omit<TokensEvent, 'type'>)
  /** Outputs of all generations in one step. */
  | { readonly type: 'step'; readonly outputs: readonly EngineOutput[] }
  /**
   * Heartbeat; also sent before the end of a generation. `stats`: null until the model is loaded. `privateBytes`:
   * memory not backed by files; null if not measured.
   */
  | {
      readonly type: 'stats';
      readonly stats: NativeStats | null;
      readonly submits: SubmitProgress;
      readonly rssBytes: number;
      readonly privateBytes: number | null;
      /** CPU time of all threads. */
      readonly cpuMs: number;
    }
  /** Current device state from the drivers; sent repeatedly while the model is loaded. */
  | { readonly type: 'devices'; readonly devices: readonly NativeDevice[] }
  | { readonly type: 'log'; readonly level: 'debug' | 'info' | 'warn' | 'error'; readonly text: string }
  /** Answer to `try_sandbox`. */
  | { readonly type: 'sandbox_tried'; readonly report: SandboxReport; readonly attempts: readonly SandboxAttempt[] }
  /** A tensor was quantized. */
  | { readonly type: 'tensor'; readonly name: string }
  /** All tensors were quantized. `bytes`: size of the new weights, as logged by libllama (to 0.01 MiB). */
  | { readonly type: 'quantized'; readonly bytes: number }
  /** Facts found so far, and the next action; null: finished. */
  | { readonly type: 'probed'; readonly facts: ProbeFacts; readonly next: string | null };

export interface SandboxAttempt {
  /** `to read a file of others`. */
  readonly what: string;
  /** Name of the errno. null: the attempt succeeded. */
  readonly error: string | null;
}

export interface ProbeFacts {
  readonly addon: (Addon['info'] & { readonly path: string }) | null;
  readonly devices: readonly ProbedDevice[];
  readonly cpuFeatures: string | null;
  /** Log lines of ggml while it loaded its backends. */
  readonly log: readonly string[];
  readonly error: ErrorRecord | null;
}

export interface ProbedDevice extends NativeDevice {
  /** Measured with a real kernel, whose result is checked. null: not measured. */
  readonly gflops: number | null;
  /** Why the measurement failed. */
  readonly error: string | null;
}
