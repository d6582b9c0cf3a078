/** Parses the headers with which servers ask for a delay before a retry. */

/** Upper bound: longer delays are clamped. */
const LONGEST_SECONDS = 24 * 60 * 60;
const NUMBER = /^\d+(\.\d+)?$/;
/** Every HTTP date has a time of day. Date.parse alone would accept words with a number in them. */
const DATE = /\d:\d\d:\d\d/;
/** The only HTTP date format without a time zone; it is GMT. */
const ASCTIME = /^\w{3} \w{3} [ \d]\d \d\d:\d\d:\d\d \d{4}$/;

/**
 * Seconds from `retry-after-ms` (OpenAI and compatible servers), or from `retry-after` as a number or date; 0 for a
 * date in the past. null: no valid header.
 * @param header returns a response header by its lower-case name
 * @param now Date.now()
 */
export function retryAfterSeconds(header: (name: string) => string | undefined, now: number): number | null {
  const milliseconds = header('retry-after-ms') ?? '';
  if (NUMBER.test(milliseconds)) return bounded(Number(milliseconds) / 1000);
  const after = header('retry-after') ?? '';
  if (NUMBER.test(after)) return bounded(Number(after));
  const date = DATE.test(after) ? Date.parse(ASCTIME.test(after) ? `${after} GMT` : after) : NaN;
  return Number.isNaN(date) ? null : bounded((date - now) / 1000);
}

function bounded(seconds: number): number {
  return Math.min(Math.max(0, seconds), LONGEST_SECONDS);
}
