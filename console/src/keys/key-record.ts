/** An API key without its secret; null where it has no limit. */
export interface KeyRecord {
  readonly name: string;
  readonly scope: string;
  readonly models: readonly string[] | null;
  readonly tokens_per_day: number | null;
  readonly tokens_per_month: number | null;
  readonly expires_at: string | null;
  readonly created_at: string;
}
