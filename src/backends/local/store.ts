import type { ModelRecord } from '../../protocol/records.ts';

/** The part of the model store that local models need. */
export interface Store {
  list(): Promise<readonly ModelRecord[]>;
  /** An id, an alias or a path; absent: the default. Throws MODEL_NOT_FOUND. */
  find(name?: string): Promise<ModelRecord>;
}
