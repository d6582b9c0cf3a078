/** What a scan of another program's store finds. Nothing in such a store is trusted, and nothing in it is written. */
import type { Refused } from '../../protocol/model/import.ts';
import type { ModelSettings } from '../../protocol/model/settings.ts';

export interface FoundModel {
  /** Proposed id; it may be taken. */
  readonly id: string;
  /** For the record: the name that pulls the model again, or the program and the path in its store. */
  readonly source: string;
  /** The file with the weights; the first of several parts. Checked to lie in `root`, behind all links. */
  readonly path: string;
  readonly projector: string | null;
  /** Files of LoRA adapters. */
  readonly adapters: readonly string[];
  readonly settings: ModelSettings;
  /** What is not taken over as the other program has it, and why. */
  readonly notes: readonly string[];
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
