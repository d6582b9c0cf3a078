/** Usage by day, provider and model, and optionally by API key: the output of `svc usage --json`. */

/** One row of `svc usage`. */
export interface UsageRecord {
  /** `2026-11-21`, UTC. */
  readonly day: string;
  readonly provider: string;
  /** Name of the API key. null: none was sent. Absent: not summed up by key. */
  readonly key?: string | null;
  /** null: no backend had begun to answer. */
  readonly model: string | null;
  readonly requests: number;
  /** Number of `requests` that ended with an error. */
  readonly failed: number;
  readonly input_tokens: number;
  /** Number of `input_tokens` that a prefix cache held. */
  readonly cached_tokens: number;
  readonly output_tokens: number;
  /** Number of complete answers without reported usage: svc has estimated their tokens. */
  readonly untold: number;
}
