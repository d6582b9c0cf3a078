/** A model of the catalogue, against this machine's memory and disk. */
export interface CatalogueRecord {
  readonly name: string;
  readonly title?: string;
  readonly bytes: number;
  readonly context_length?: number;
  readonly fits: boolean;
  /** Why it does not fit. */
  readonly why?: string;
  readonly installed: boolean;
}
