/**
 * The span of a received HTTP request. Requests that only read have none of their own: probes and scrapers would fill
 * the collector. It names the route, not the path, and no address: a URL may contain secrets.
 */
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { SvcError } from '../../protocol/errors.ts';
import { NO_TRACES, type Span, type Tracer } from '../../protocol/traces/span.ts';

/** `route`: entry of the route table; null: the path has none. */
export function beginSpan(tracer: Tracer, req: IncomingMessage, id: string, route: string | null): Span {
  const { headers, method = '', socket } = req;
  const { traceparent, tracestate } = headers;
  const isTraced = route !== null && method !== 'GET' && method !== 'HEAD';
  return (isTraced ? tracer : NO_TRACES).begin({
    headers: {
      traceparent: typeof traceparent === 'string' ? traceparent : undefined,
      tracestate: Array.isArray(tracestate) ? tracestate.join(',') : tracestate,
    },
    requestId: id,
    name: `${method} ${route ?? ''}`,
    attributes: {
      'http.request.method': method,
      'http.route': route ?? undefined,
      'url.scheme': 'http',
      'server.address': socket.localAddress,
      'server.port': socket.localPort,
      'svc.request.id': id,
    },
  });
}

/** `error`: error of the answer. null: none. */
export function endSpan(span: Span, res: ServerResponse, error: SvcError | null): void {
  if (res.headersSent) span.set({ 'http.response.status_code': res.statusCode });
  span.end(error === null ? {} : { error: error.code, isFailure: error.facts.http >= 500 });
}
