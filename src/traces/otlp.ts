/**
 * Spans in OTLP's JSON form (opentelemetry-proto, ExportTraceServiceRequest): ids are hexadecimal, 64-bit integers are
 * text, enumerations are numbers.
 */
import type { AttributeValue, SpanKind } from '../protocol/traces/span.ts';
import type { EndedSpan } from './recorded-span.ts';

const KINDS: Readonly<Record<SpanKind, number>> = { internal: 1, server: 2, client: 3 };
const STATUS_ERROR = 2;
const FLAG_SAMPLED = 1;

/** Attributes of the process that all its spans share. */
export type Resource = Readonly<Record<string, AttributeValue>>;

export interface Scope {
  readonly name: string;
  readonly version: string;
}

/** The body of an export. */
export function toExportRequest(resource: Resource, scope: Scope, spans: readonly EndedSpan[]): object {
  return {
    resourceSpans: [
      {
        resource: { attributes: toAttributes(Object.entries(resource)) },
        scopeSpans: [{ scope, spans: spans.map(toSpan) }],
      },
    ],
  };
}

function toSpan({ context, parentId, name, kind, startedAt, endedAt, attributes, hasFailed }: EndedSpan): object {
  return {
    traceId: context.traceId,
    spanId: context.spanId,
    ...(context.state === null ? {} : { traceState: context.state }),
    ...(parentId === null ? {} : { parentSpanId: parentId }),
    flags: FLAG_SAMPLED,
    name,
    kind: KINDS[kind],
    startTimeUnixNano: `${String(startedAt)}000`,
    endTimeUnixNano: `${String(endedAt)}000`,
    attributes: toAttributes(attributes),
    status: hasFailed ? { code: STATUS_ERROR } : {},
  };
}

function toAttributes(attributes: Iterable<readonly [string, AttributeValue]>): object[] {
  return Array.from(attributes, ([key, value]) => ({ key, value: toValue(value) }));
}

function toValue(value: AttributeValue): object {
  if (typeof value === 'string') return { stringValue: value };
  if (typeof value === 'boolean') return { boolValue: value };
  if (typeof value === 'object') return { arrayValue: { values: value.map(toValue) } };
  return Number.isSafeInteger(value) ? { intValue: String(value) } : { doubleValue: value };
}
