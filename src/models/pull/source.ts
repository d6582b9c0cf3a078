/** A resolved reference: files of known size and digest, and the model's names. */
import type { NewModel } from '../store/lookup.ts';
import type { RemoteFile } from './download.ts';

export interface Source extends NewModel {
  /** Id of the model, as in Ollama and llama-server: `owner/repo:Q4_K_M`, `name:tag`; of a URL: from the file name. */
  readonly id: string;
  /** Further names; those that are free become aliases. */
  readonly aliases: readonly string[];
  /** Reference for the model record, with which the model can be pulled again. */
  readonly origin: string;
  /** In the order of the parts. */
  readonly weights: readonly RemoteFile[];
  readonly projector: RemoteFile | null;
  /** License reported by the source; null: the file may have it. */
  readonly license: string | null;
}

/** Limits of a pull, far above any real model. */
export const MOST_PARTS = 256;
export const MOST_FILE_BYTES = 4 * 1024 ** 4;
