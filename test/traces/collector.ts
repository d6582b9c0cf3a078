/**
 * A collector of OTLP traces on a loopback socket, which checks each body against OTLP's JSON form: unknown fields,
 * wrong encodings of ids and 64-bit integers, and repeated attributes fail the test.
 */
import { once } from 'node:events';
import { createServer, type IncomingHttpHeaders, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import * as v from 'valibot';
import { waitFor } from '../support/wait.ts';

const int64 = v.pipe(v.string(), v.regex(/^-?\d{1,19}$/));
const AnyValueSchema: v.GenericSchema<any> = v.union([
  v.strictObject({ stringValue: v.string() }),
  v.strictObject({ boolValue: v.boolean() }),
  v.strictObject({ intValue: int64 }),
  v.strictObject({ doubleValue: v.number() }),
  v.strictObject({ arrayValue: v.strictObject({ values: v.array(v.lazy(() => AnyValueSchema)) }) }),
]);
const AttributesSchema = v.pipe(
  v.array(v.strictObject({ key: v.pipe(v.string(), v.minLength(1)), value: AnyValueSchema })),
  v.check((all) => new Set(all.map(({ key }) => key)).size === all.length, 'an attribute is there twice'),
);
const spanId = v.pipe(v.string(), v.regex(/^(?!0+$)[0-9a-f]{16}$/));
const time = v.pipe(v.string(), v.regex(/^1[0-9]{18}$/));
const SpanSchema = v.strictObject({
  traceId: v.pipe(v.string(), v.regex(/^(?!0+$)[0-9a-f]{32}$/)),
  spanId,
  traceState: v.exactOptional(v.string()),
  parentSpanId: v.exactOptional(spanId),
  flags: v.literal(1),
  name: v.pipe(v.string(), v.minLength(1)),
  kind: v.picklist([1, 2, 3]),
  startTimeUnixNano: time,
  endTimeUnixNano: time,
  attributes: AttributesSchema,
  status: v.strictObject({ code: v.exactOptional(v.literal(2)) }),
});
export const ExportSchema = v.strictObject({
  resourceSpans: v.array(
    v.strictObject({
      resource: v.strictObject({ attributes: AttributesSchema }),
      scopeSpans: v.array(
        v.strictObject({
          scope: v.strictObject({ name: v.string(), version: v.string() }),
          spans: v.pipe(v.array(SpanSchema), v.minLength(1)),
        }),
      ),
    }),
  ),
});

/** A span as received, with its attributes by name. */
export interface SeenSpan extends Omit<v.InferOutput<typeof SpanSchema>, 'attributes'> {
  readonly attributes: Readonly<Record<string, any>>;
}

export interface CollectorServer {
  /** `http://127.0.0.1:PORT` */
  readonly url: string;
  readonly spans: readonly SeenSpan[];
  readonly resources: readonly Readonly<Record<string, any>>[];
  /** Path and headers of each export. */
  readonly asked: readonly { readonly path: string; readonly headers: IncomingHttpHeaders }[];
  /** All bodies, as text. */
  text(): string;
  /** Errors of the schema. */
  readonly problems: readonly string[];
  /** How the next exports are answered; null: as a collector does. */
  answer: ((res: ServerResponse) => void) | null;
  /** Waits for a span. */
  span(what: string, matches: (span: SeenSpan) => boolean): Promise<SeenSpan>;
  close(): Promise<void>;
}

export async function startCollector(): Promise<CollectorServer> {
  const spans: SeenSpan[] = [];
  const resources: Record<string, any>[] = [];
  const asked: { path: string; headers: IncomingHttpHeaders }[] = [];
  const problems: string[] = [];
  let text = '';
  const server = createServer((req, res) => {
    const pieces: Buffer[] = [];
    req.on('data', (piece: Buffer) => pieces.push(piece));
    req.on('end', () => {
      asked.push({ path: req.url ?? '', headers: req.headers });
      if (collector.answer !== null) return collector.answer(res);
      const body = Buffer.concat(pieces).toString();
      text += body;
      const parsed = v.safeParse(ExportSchema, JSON.parse(body));
      if (parsed.success) take(parsed.output);
      else problems.push(...parsed.issues.map((issue) => `${v.getDotPath(issue) ?? ''}: ${issue.message}`));
      res.writeHead(200, { 'content-type': 'application/json' }).end('{"partialSuccess":{}}');
    });
  });
  const take = ({ resourceSpans }: v.InferOutput<typeof ExportSchema>): void => {
    for (const { resource, scopeSpans } of resourceSpans) {
      resources.push(valuesOf(resource.attributes));
      for (const each of scopeSpans.flatMap((scope) => scope.spans))
        spans.push({ ...each, attributes: valuesOf(each.attributes) });
    }
  };
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const collector: CollectorServer = {
    url: `http://127.0.0.1:${String((server.address() as AddressInfo).port)}`,
    spans,
    resources,
    asked,
    problems,
    answer: null,
    text: () => text,
    span: async (what, matches) => await waitFor(`${what}; problems: ${problems.join()}`, () => spans.find(matches)),
    close: async () => {
      if (!server.listening) return;
      server.close();
      server.closeAllConnections();
      await once(server, 'close');
    },
  };
  return collector;
}

function valuesOf(attributes: v.InferOutput<typeof AttributesSchema>): Record<string, any> {
  return Object.fromEntries(attributes.map(({ key, value }) => [key, valueOf(value)]));
}

function valueOf(value: any): unknown {
  if ('intValue' in value) return Number(value.intValue);
  if ('arrayValue' in value) return value.arrayValue.values.map(valueOf);
  return Object.values(value)[0];
}
