/** A program that is compared: started once, on the same file, with the same threads and cells as the others. */
import type { Target } from '../ask.ts';

export type ServerName = 'svc' | 'llama-server' | 'llama-server -np 8' | 'node-llama-cpp';

export interface ServerOptions {
  /** Path of this checkout. */
  readonly root: string;
  /** Path of the GGUF file. */
  readonly model: string;
  readonly threads: number;
  /** KV cells, for all streams together. */
  readonly contextLength: number;
  /** Tokens of the model. */
  readonly vocabulary: number;
}

export interface Server extends Target {
  readonly name: ServerName;
  /** That it was started with. */
  readonly options: ServerOptions;
  /** As it was started, for the report. */
  readonly command: string;
  /** Resident bytes of the process that has the model. */
  residentBytes(): Promise<number>;
  /** Ends the process that has the model, starts another, and resolves when it answers. null: it has none of its own. */
  readonly restartEngine: (() => Promise<void>) | null;
  stop(): Promise<void>;
}
