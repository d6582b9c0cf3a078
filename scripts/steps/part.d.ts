export interface Part {
  /** From 1 to `of`. */
  readonly number: number;
  readonly of: number;
}
export function readPart(text: string): Part;
export function thirdOf(commitHash: string): Part;
export function thirdOfHead(): Promise<Part>;
export function partOf<Item>(items: readonly Item[], part: Part): Item[];
