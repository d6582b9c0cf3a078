/** The span of a gRPC call. Calls that only read have none of their own, as over HTTP. */
import { status, type Metadata } from '@grpc/grpc-js';
import { NO_TRACES, type Span, type Tracer } from '../../protocol/traces/span.ts';

/** Statuses that are not the client's fault. */
const FAILURES: ReadonlySet<status> = new Set([
  status.UNKNOWN,
  status.DEADLINE_EXCEEDED,
  status.UNIMPLEMENTED,
  status.INTERNAL,
  status.UNAVAILABLE,
  status.DATA_LOSS,
]);

/** `path`: `/svc.v1.Inference/Generate`. */
export function beginSpan(tracer: Tracer, metadata: Metadata, id: string, path: string): Span {
  const header = (name: string): string | undefined => {
    const values = metadata.get(name);
    return values.length === 0 ? undefined : values.map(String).join(',');
  };
  const method = path.slice(1);
  return (path.startsWith('/svc.v1.Inference/') ? tracer : NO_TRACES).begin({
    headers: { traceparent: header('traceparent'), tracestate: header('tracestate') },
    requestId: id,
    name: method,
    attributes: { 'rpc.system.name': 'grpc', 'rpc.method': method, 'svc.request.id': id },
  });
}

/** Ends the span of a call. An `error.type` that it has already, more exact than the status, stays. */
export function endSpan(span: Span, code: status): void {
  const name = status[code];
  span.set({ 'rpc.response.status_code': name });
  const isFailure = FAILURES.has(code);
  span.end(code === status.OK ? {} : { error: name, isFailure });
}
