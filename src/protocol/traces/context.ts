/**
 * W3C Trace Context (level 1): reads and writes the headers `traceparent` and `tracestate`. An invalid `traceparent` is
 * ignored together with its `tracestate`; an invalid `tracestate` is ignored alone.
 */

export interface TraceContext {
  /** 32 hexadecimal digits, not all zero. */
  readonly traceId: string;
  /** Span that made the request: 16 hexadecimal digits, not all zero. */
  readonly spanId: string;
  /** True if the caller records the trace. */
  readonly sampled: boolean;
  /** The `tracestate` of other tracing systems, passed on unchanged. null: none. */
  readonly state: string | null;
}

/** The two headers of a request, as received. Repeated ones are joined with commas. */
export interface TraceHeaders {
  readonly traceparent?: string | undefined;
  readonly tracestate?: string | undefined;
}

const PARENT = /^([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?$/;
const NOTHING = /^0+$/;
const SAMPLED = 1;

const STATE_LENGTH = 512;
const STATE_MEMBERS = 32;
/** A key of one part, or `TENANT@SYSTEM`. */
const STATE_KEY = /^(?:[a-z][a-z0-9_*/-]{0,255}|[a-z0-9][a-z0-9_*/-]{0,240}@[a-z][a-z0-9_*/-]{0,13})$/;
/** Printable ASCII without comma and equals sign; no space at the end. */
const STATE_VALUE = /^[\x20-\x2b\x2d-\x3c\x3e-\x7e]{0,255}[\x21-\x2b\x2d-\x3c\x3e-\x7e]$/;

/** null: there is no valid `traceparent`. */
export function parseTraceContext({ traceparent, tracestate }: TraceHeaders): TraceContext | null {
  const [, version = 'ff', traceId = '', spanId = '', flags = '', more] = PARENT.exec(traceparent ?? '') ?? [];
  // Later versions may append fields; version 00 has none.
  if (version === 'ff' || (version === '00' && more !== undefined)) return null;
  if (NOTHING.test(traceId) || NOTHING.test(spanId)) return null;
  const sampled = (parseInt(flags, 16) & SAMPLED) !== 0;
  return { traceId, spanId, sampled, state: parseState(tracestate ?? '') };
}

/** Headers that pass a context on. */
export function traceHeaders({ traceId, spanId, sampled, state }: TraceContext): Record<string, string> {
  const traceparent = `00-${traceId}-${spanId}-${sampled ? '01' : '00'}`;
  return state === null ? { traceparent } : { traceparent, tracestate: state };
}

function parseState(text: string): string | null {
  const members = text
    .split(',')
    .map((member) => member.trim())
    .filter((member) => member !== '');
  const keys = members.map((member) => member.slice(0, Math.max(0, member.indexOf('='))));
  const areValid = members.every((member, index) => {
    const key = keys[index] ?? '';
    return STATE_KEY.test(key) && STATE_VALUE.test(member.slice(key.length + 1));
  });
  const state = members.join(',');
  const isTooLong = members.length > STATE_MEMBERS || state.length > STATE_LENGTH;
  if (state === '' || !areValid || isTooLong || new Set(keys).size < keys.length) return null;
  return state;
}
