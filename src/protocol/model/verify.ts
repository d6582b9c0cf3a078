/** Verifying models: the events of the route and of `svc model verify --json`. */
import type { BytesDone } from '../routes.ts';

export interface Problem {
  readonly file: string;
  readonly kind: 'missing' | 'unreadable' | 'size' | 'digest' | 'invalid';
  /** The fault, as a predicate after the file's name. */
  readonly message: string;
}

export type VerifyEvent =
  | ({ readonly type: 'progress'; readonly model: string } & BytesDone)
  | {
      readonly type: 'verified';
      readonly model: string;
      readonly state: 'ok' | 'damaged';
      readonly size_bytes: number;
      readonly problems: readonly Problem[];
      /** How to repair them; null: nothing to do. */
      readonly hint: string | null;
    };

export interface VerifyResult {
  readonly type: 'finished';
  readonly verified: number;
  /** Ids of damaged models. */
  readonly damaged: readonly string[];
  /** null: not all models were verified, there is no store, or it cannot be written to, so nothing was deleted. */
  readonly leftovers: Leftovers | null;
  /** Why the results were not saved: damaged models are not marked. */
  readonly warning?: string;
}

/** Files in the store that belong to no model. */
export interface Leftovers {
  readonly removed: readonly Leftover[];
  readonly freed_bytes: number;
  readonly kept: readonly (Leftover & { readonly removed_after: string })[];
}

export interface Leftover {
  readonly path: string;
  readonly size_bytes: number;
}
