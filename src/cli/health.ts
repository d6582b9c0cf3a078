import { Client } from '../client/client.ts';
import { probeHttpHealth } from '../client/http-probe.ts';
import { readDaemonFile } from '../config/daemon-file.ts';
import { resolvePaths } from '../config/paths.ts';
import { ERRORS, SvcError } from '../protocol/errors.ts';
import type { CheckStatus, HealthRecord } from '../protocol/records.ts';
import type { Run } from './commands.ts';
import { bytes, duration, facts, percent, table, text } from './format.ts';
import { out, print, printJson, report } from './output.ts';
import { modelTable } from './status.ts';

/** Whatever keeps the record from us: nobody there, no answer, somebody else. */
const UNREACHABLE = 69;

export const run: Run<'health'> = async ({ source, json }) => {
  let record: HealthRecord;
  try {
    record = await ask(source);
  } catch (error) {
    const exit = report(error, json);
    return error instanceof SvcError && error.code === 'UNAUTHORIZED' ? exit : UNREACHABLE;
  }
  if (json) printJson(record);
  else print(describe(record));
  return record.status === 'ready' ? 0 : ERRORS.NOT_READY.exit;
};

async function ask(source: 'http' | 'grpc' | 'socket'): Promise<HealthRecord> {
  const paths = resolvePaths();
  if (source === 'socket') return await new Client(paths.socketPath).health();
  if (source === 'grpc') {
    throw new SvcError('NOT_FOUND', 'this version of svc does not serve gRPC', { hint: 'use --source http or socket' });
  }
  const daemon = readDaemonFile(paths.daemonFile);
  if (daemon === null || daemon.exit !== null || daemon.http === null) {
    throw new SvcError('DAEMON_NOT_RUNNING', 'the daemon is not running', { hint: 'start it with `svc start`' });
  }
  return await probeHttpHealth(daemon.http);
}

function describe(record: HealthRecord): string {
  const { queue, resources } = record;
  const head = facts([
    ['status', record.status === 'ready' ? out.green('ready') : out.red('not ready')],
    ['state', record.reason === null ? record.state : `${record.state} (${record.reason})`],
    ['version', `${record.version} (pid ${String(record.pid)}, up ${duration(record.uptime_seconds)})`],
    ['queue', `${String(queue.active)} active, ${String(queue.waiting)} waiting of ${String(queue.limit)}`],
    ['cpu', percent(resources.cpu_percent)],
    [
      'memory',
      `${bytes(resources.rss_bytes)} used, ${bytes(resources.system_memory_available_bytes)} free on this machine`,
    ],
  ]);
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
    table(conditions),
    devices.length === 0 ? '' : table([['DEVICE', 'BACKEND', 'FREE', 'TOTAL'], ...devices]),
    record.models.length === 0 ? '' : modelTable(record.models),
    providers.length === 0 ? '' : table([['PROVIDER', 'STATE', 'REASON'], ...providers]),
  ]
    .filter((part) => part !== '')
    .join('\n\n');
}

function paint(status: CheckStatus): string {
  return { ok: out.green, warn: out.yellow, fail: out.red }[status](status);
}
