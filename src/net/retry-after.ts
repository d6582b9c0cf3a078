/** How long a server asks to be left alone. */

/** What asks for more is not meant: nobody waits for days. */
const LONGEST_SECONDS = 24 * 60 * 60;
const NUMBER = /^\d+(\.\d+)?$/;
/** Any date of HTTP has a time of day. Without that Date.parse would take words with a number in them for one. */
const DATE = /\d:\d\d:\d\d/;
/** The one notation that does not name its zone, which is Greenwich. */
const ASCTIME = /^\w{3} \w{3} [ \d]\d \d\d:\d\d:\d\d \d{4}$/;

/**
 * Seconds, from `retry-after-ms` (OpenAI and those who follow it) or `retry-after` in seconds or as a date;
 * 0 for a date that is past. null: there is none that can be understood.
 * @param header a response header by its name in lower case
 * @param now as Date.now() tells it
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
