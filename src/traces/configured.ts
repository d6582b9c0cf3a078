/** The tracer as the config wants it, and OpenTelemetry's variables. */
import { problemOfEndpoint, mayCarrySecrets, urlOfEndpoint } from '../config/traces-settings.ts';
import type { Config } from '../config/config.ts';
import { VERSION } from '../config/version.ts';
import { HEADER_NAME, HEADER_VALUE, readTraceHeaders } from '../home/trace-headers-file.ts';
import type { Logger } from '../log/log.ts';
import { variable } from '../process/environment.ts';
import { decodePercent } from '../protocol/foreign-text.ts';
import { NO_TRACES, type Tracer } from '../protocol/traces/span.ts';
import { TraceCollector } from './collector.ts';
import { Exporter, type SpanCounts } from './exporter.ts';
import { toExportRequest, type Resource } from './otlp.ts';
import { RecordingTracer } from './tracer.ts';

/** The traces of a daemon, from its start to its end. */
export interface Traces extends Tracer {
  /** null: traces are off. */
  counts(): SpanCounts | null;
  /** Sends what waits, within a limit; the rest is dropped. */
  close(): Promise<void>;
}

const TIMEOUT_MS = 10_000;
/** Time for the last spans. */
const CLOSE_MS = 2000;
const SCOPE = { name: 'svc', version: VERSION };
const OFF: Traces = { ...NO_TRACES, counts: () => null, close: () => Promise.resolve() };

/** Never throws: settings that cannot be used turn traces off, with a line in the log. */
export function tracesOf(settings: Config['traces'], log: Logger): Traces {
  const { endpoint, headers_file: file, sample_ratio, service_name } = settings;
  if (endpoint === null || variable('OTEL_SDK_DISABLED')?.toLowerCase() === 'true') return OFF;
  const headers = headersFrom(variable('OTEL_EXPORTER_OTLP_HEADERS'));
  const problem = problemOf(endpoint, headers, file);
  if (problem !== undefined) {
    log.warn(`traces are off: ${problem}`);
    return OFF;
  }
  const url = urlOfEndpoint(endpoint);
  const collector = new TraceCollector({
    url,
    timeoutMs: TIMEOUT_MS,
    headers: () => ({ ...headers, ...(file === undefined ? {} : readTraceHeaders(file)) }),
  });
  const resource: Resource = {
    'service.name': service_name,
    'service.version': VERSION,
    'process.pid': process.pid,
    'telemetry.sdk.name': 'svc',
    'telemetry.sdk.language': 'nodejs',
    'telemetry.sdk.version': VERSION,
  };
  const exporter = new Exporter({
    send: (spans, signal) => collector.send(toExportRequest(resource, SCOPE, spans), signal),
    onState: (failure) => {
      if (failure === null) log.info({ collector: url.origin }, 'traces are exported again');
      else log.warn({ collector: url.origin, reason: failure }, 'traces cannot be exported');
    },
  });
  log.info({ collector: url.origin, sample_ratio }, 'traces are exported');
  const tracer = new RecordingTracer(sample_ratio, (span) => exporter.add(span));
  return {
    begin: (start) => tracer.begin(start),
    counts: () => exporter.counts,
    close: async () => {
      await exporter.close(CLOSE_MS);
      collector.close();
    },
  };
}

function problemOf(endpoint: string, headers: Headers | null, file: string | undefined): string | undefined {
  const problem = problemOfEndpoint(endpoint);
  if (problem !== undefined) return `traces.endpoint ${problem}`;
  if (headers === null) return 'OTEL_EXPORTER_OTLP_HEADERS must be name=value, separated by commas';
  const hasHeaders = file !== undefined || Object.keys(headers).length > 0;
  if (!hasHeaders || mayCarrySecrets(urlOfEndpoint(endpoint))) return undefined;
  return 'headers for the collector are sent only over https, or to this machine';
}

type Headers = Readonly<Record<string, string>>;

/** null: invalid. */
function headersFrom(text = ''): Headers | null {
  const pairs = text
    .split(',')
    .filter((pair) => pair.trim() !== '')
    .map((pair): [string, string] => {
      const at = Math.max(0, pair.indexOf('='));
      return [pair.slice(0, at).trim(), decodePercent(pair.slice(at + 1).trim()) ?? ''];
    });
  const areValid = pairs.every(([name, value]) => HEADER_NAME.test(name) && HEADER_VALUE.test(value));
  return areValid ? Object.fromEntries(pairs) : null;
}
