/** What a reference turned out to be: files of known size and digest, and what the model is called. */
import type { RemoteFile } from './download.ts';

export interface Source {
  /** As users of Ollama and llama-server would call it: `owner/repo:Q4_K_M`, `name:tag`. */
  readonly id: string;
  /** Further names, of which those that are free become aliases. */
  readonly aliases: readonly string[];
  /** For the record; to pull it again. */
  readonly origin: string;
  /** In their order. */
  readonly weights: readonly RemoteFile[];
  readonly projector: RemoteFile | null;
  /** As the source tells it; null: the file may. */
  readonly license: string | null;
}

/** Of the whole fetch; a model of more files or bytes is somebody's joke. */
export const MOST_PARTS = 256;
export const MOST_FILE_BYTES = 4 * 1024 ** 4;
