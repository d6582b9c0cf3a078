/** `keep_alive` as Ollama's clients send it: seconds, or `5m`, `1h30m`, `300ms`; negative: forever. */
import * as v from 'valibot';
import { LIMITS } from './limits.ts';

const SECONDS: Readonly<Record<string, number>> = { ms: 0.001, s: 1, m: 60, h: 3600 };
const DURATION = /^-?(?:\d+(?:\.\d+)?(?:ms|s|m|h))+$/;

/** Returns seconds; -1: forever. Values above the limit count as forever. */
export const KeepAliveSchema = v.exactOptional(
  v.pipe(
    v.union([v.pipe(v.number(), v.finite()), v.pipe(v.string(), v.maxLength(64), v.check(isDuration))]),
    v.transform((value) => {
      const seconds = typeof value === 'number' ? value : secondsOf(value);
      return seconds < 0 || seconds > LIMITS.keepAliveSeconds ? -1 : seconds;
    }),
  ),
);

/** Accepts plain numbers too: environment variables and flags are strings. */
function isDuration(text: string): boolean {
  return DURATION.test(text) || /^-?\d+$/.test(text);
}

function secondsOf(text: string): number {
  if (text.startsWith('-')) return -1;
  if (/^\d+$/.test(text)) return Number(text);
  return [...text.matchAll(/(\d+(?:\.\d+)?)(ms|s|m|h)/gy)].reduce(
    (sum, [, count, unit = 's']) => sum + Number(count) * (SECONDS[unit] ?? 1),
    0,
  );
}
