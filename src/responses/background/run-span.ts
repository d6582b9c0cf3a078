/**
 * The span of a background response: below that of the request that created it, which has ended long before. Each
 * daemon that works on the response has one; that of a daemon that is killed is lost.
 */
import { SvcError } from '../../protocol/errors.ts';
import { requestOf } from '../../protocol/openai/responses/items.ts';
import type { Span, SpanEnd, Tracer } from '../../protocol/traces/span.ts';
import { isLast, type Entry, type Story } from './journal.ts';

export function beginSpan(tracer: Tracer, { asked, entries }: Story): Span {
  const requestId = requestOf(asked.id);
  const isResumed = entries.some((entry) => 'taken_up' in entry);
  return tracer.begin({
    headers: asked.trace ?? {},
    requestId,
    name: 'response',
    kind: 'internal',
    attributes: {
      'svc.request.id': requestId,
      'gen_ai.response.id': asked.id,
      ...(isResumed ? { 'svc.response.resumed': true } : {}),
    },
  });
}

/** `last`: last entry of the journal. An answer that it does not end continues in the next daemon. */
export function endSpan(span: Span, last: Entry | undefined): void {
  span.end(endOf(last));
}

function endOf(last: Entry | undefined): SpanEnd {
  if (last === undefined || !isLast(last)) return { error: 'NOT_READY', isFailure: false };
  if ('cancelled' in last) return { error: 'CANCELLED', isFailure: false };
  if (!('error' in last)) return {};
  const { code, facts } = SvcError.fromRecord(last.error);
  return { error: code, isFailure: facts.http >= 500 };
}
