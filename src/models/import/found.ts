/** What a scan of another program's store finds. Nothing in such a store is trusted, and nothing in it is written. */
import type { ImportedModel, Refused } from '../../protocol/model/import.ts';

/** Its id is a proposal, and may be taken. Its path is checked to lie in `root`, behind all links. */
export interface FoundModel extends Omit<ImportedModel, 'state' | 'same_as' | 'program' | 'size_bytes'> {
  /** The store, without links. */
  readonly root: string;
}

export interface Scan {
  readonly models: FoundModel[];
  readonly refused: Refused[];
}

/** The digest that the name of a file states: of Ollama's blobs and of the hub's. null: none. */
export function statedDigest(realPath: string): string | null {
  const name = realPath.split(/[\\/]/).at(-1) ?? '';
  const hexadecimal = /^(?:sha256[-:])?([0-9a-f]{64})$/.exec(name)?.[1];
  return hexadecimal === undefined ? null : `sha256:${hexadecimal}`;
}
