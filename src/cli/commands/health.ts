import { ControlClient } from '../../client/control-client.ts';
import { notRunning } from '../../client/daemon-errors.ts';
import { probeHttpHealth } from '../../client/http-probe.ts';
import { watchHealth } from '../../client/watch-health.ts';
import { readDaemonFile } from '../../home/daemon-file.ts';
import { resolvePaths, type Paths } from '../../home/paths.ts';
import { ERRORS, SvcError } from '../../protocol/errors.ts';
import type { CheckStatus, HealthRecord } from '../../protocol/records.ts';
import { jsonFlag, type Run, type Spec } from '../spec.ts';
import { bytes, duration, percent, text } from '../terminal/format.ts';
import { definitions, facts, table } from '../terminal/layout.ts';
import { out, printJsonLine, report } from '../terminal/output.ts';
import { printResult, printText } from '../terminal/result.ts';
import { modelTable } from './status.ts';

/** Exit code if no record arrives: no daemon, no answer, or another program at the address. */
const UNREACHABLE = 69;

export const spec = {
  summary: 'Show the health record of the running daemon',
  flags: {
    source: {
      kind: 'choice',
      choices: ['http', 'grpc', 'socket'],
      default: 'http',
      summary: 'which listener to ask; the record is the same',
    },
    watch: { kind: 'switch', short: 'w', summary: 'keep running and print each change' },
    json: jsonFlag,
  },
  examples: ['svc health', 'svc health --source grpc --json', 'svc health --watch'],
} as const satisfies Spec;

export const run: Run<typeof spec> = async ({ source, watch, json }) => {
  const paths = resolvePaths();
  try {
    const health = await open(source, paths);
    if (watch) return await show(health.watch(), json);
    const record = await health.once();
    printResult(json, record, describe(record));
    return record.status === 'ready' ? 0 : ERRORS.NOT_READY.exit;
  } catch (error) {
    const exit = report(error, json);
    return error instanceof SvcError && error.code === 'UNAUTHORIZED' ? exit : UNREACHABLE;
  }
};

interface Source {
  once(): Promise<HealthRecord>;
  /** Never returns; ends by throwing. */
  watch(): AsyncIterable<HealthRecord>;
}

async function open(source: 'http' | 'grpc' | 'socket', paths: Paths): Promise<Source> {
  if (source === 'socket') {
    const client = new ControlClient(paths.socketPath);
    return asked(() => client.health());
  }
  const daemon = readDaemonFile(paths.daemonFile);
  const address = daemon === null || daemon.exit !== null ? null : daemon[source];
  if (address === null) {
    throw notRunning();
  }
  if (source === 'http') return asked(() => probeHttpHealth(address));
  // Imported only here: loading the gRPC library takes longer than everything else.
  const { probeGrpcHealth, watchGrpcHealth } = await import('../../client/grpc-health.ts');
  return { once: () => probeGrpcHealth(address), watch: () => watchGrpcHealth(address) };
}

function asked(ask: () => Promise<HealthRecord>): Source {
  return { once: ask, watch: () => watchHealth(ask) };
}

async function show(records: AsyncIterable<HealthRecord>, json: boolean): Promise<never> {
  for await (const record of records) {
    if (json) printJsonLine(record);
    else printText(line(record));
  }
  throw new Error('the watch ended without an error');
}

/** Formats a record as one line of `--watch`. */
function line({ sampled_at, status, state, reason, queue, resources }: HealthRecord): string {
  const paint = status === 'ready' ? (state === 'READY' ? out.green : out.yellow) : out.red;
  return [
    sampled_at,
    paint(state),
    `${String(queue.active)} active`,
    `${String(queue.waiting)} waiting`,
    `cpu ${percent(resources.cpu_percent)}`,
    `memory ${bytes(resources.rss_bytes)}`,
    ...(reason === null ? [] : [reason]),
  ].join('  ');
}

function describe(record: HealthRecord): string {
  const { queue, resources } = record;
  const head = facts(
    [
      ['status', record.status === 'ready' ? out.green('ready') : out.red('not ready')],
      ['state', record.reason === null ? record.state : `${record.state} (${record.reason})`],
      ['version', `${record.version} (pid ${String(record.pid)}, up ${duration(record.uptime_seconds)})`],
      ['queue', `${String(queue.active)} active, ${String(queue.waiting)} waiting of ${String(queue.limit)}`],
      ['cpu', percent(resources.cpu_percent)],
      [
        'memory',
        `${bytes(resources.rss_bytes)} used, ${bytes(resources.system_memory_available_bytes)} available on this machine`,
      ],
    ],
    out.tableColumns,
  );
  const conditions = record.conditions.map((each) => [paint(each.status), each.name, each.reason]);
  const devices = resources.devices.map((device) => [
    device.name,
    device.backend,
    bytes(device.memory_free_bytes),
    bytes(device.memory_total_bytes),
  ]);
  const providers = record.providers.map((each) => [each.name, each.state, text(each.reason)]);
  return [
    head,
    definitions(conditions, out.tableColumns),
    devices.length === 0 ? '' : table([['DEVICE', 'BACKEND', 'FREE', 'TOTAL'], ...devices], out.tableColumns),
    record.models.length === 0 ? '' : modelTable(record.models),
    providers.length === 0 ? '' : table([['PROVIDER', 'STATE', 'REASON'], ...providers], out.tableColumns),
  ]
    .filter((part) => part !== '')
    .join('\n\n');
}

function paint(status: CheckStatus): string {
  return { ok: out.green, warn: out.yellow, fail: out.red }[status](status);
}
