/** A program to compare: started once, with the same file, threads and KV-cache cells as the others. */
import type { Target } from '../ask.ts';

export type ServerName = 'svc' | 'llama-server' | 'llama-server -np 8' | 'llama-server -np 16' | 'node-llama-cpp';

export interface ServerOptions {
  /** Path of this checkout. */
  readonly root: string;
  /** Path of the GGUF file. */
  readonly model: string;
  /** Path of its projector. */
  readonly projector?: string;
  /** Paths of LoRA adapters, which requests choose with `loraOf`. */
  readonly adapters?: readonly string[];
  readonly threads: number;
  /** KV-cache cells, shared by all streams. */
  readonly contextLength: number;
  /** Number of tokens in the model's vocabulary. */
  readonly vocabulary: number;
}

export interface Server extends Target {
  readonly name: ServerName;
  /** Options that the server was started with. */
  readonly options: ServerOptions;
  /** Command line, for the report. */
  readonly command: string;
  /** Resident bytes of the process that holds the model. */
  residentBytes(): Promise<number>;
  /** Restarts the process that holds the model; resolves when the model is loaded. null: the server is that process. */
  readonly restartEngine: (() => Promise<void>) | null;
  stop(): Promise<void>;
}
