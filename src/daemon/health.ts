/** Builds the health, readiness and status records from measurements and conditions, in their wire format. */
import { VERSION } from '../config/version.ts';
import type { DaemonFile } from '../home/daemon-file.ts';
import type { Paths } from '../home/paths.ts';
import type {
  ConditionName,
  DeviceRecord,
  HealthRecord,
  LoadedModelHealth,
  ReadyRecord,
  StatusRecord,
} from '../protocol/records.ts';
import type { Conditions } from './conditions.ts';
import type { LocalEngines } from './models/local-engines.ts';
import { totalMemoryBytes, type Resources } from './resources.ts';

/** Facts that do not change while the daemon runs, by their names in the records and in daemon.json. */
export type Identity = Omit<DaemonFile, 'process' | 'settings' | 'exit'>;

/** The facts of a daemon that starts now and has no listener yet. */
export function newIdentity(mode: DaemonFile['mode'], { socketPath, logFile }: Paths): Identity {
  return {
    pid: process.pid,
    mode,
    version: VERSION,
    http: null,
    grpc: null,
    ollama: null,
    socket: socketPath,
    log_path: logFile,
    started_at: new Date().toISOString(),
    last_exit: null,
  };
}

export interface Measured {
  readonly resources: Resources;
  readonly devices: readonly DeviceRecord[];
  readonly models: readonly LoadedModelHealth[];
  readonly queue: HealthRecord['queue'];
  readonly providers: HealthRecord['providers'];
}

export function readyRecord(conditions: Conditions, exclude?: ReadonlySet<ConditionName>): ReadyRecord {
  const { state, ready } = conditions.verdict(exclude);
  return {
    status: ready ? 'ready' : 'not_ready',
    state,
    conditions: conditions.all.filter((condition) => exclude?.has(condition.name) !== true),
  };
}

export function healthRecord(identity: Identity, conditions: Conditions, measured: Measured): HealthRecord {
  const { state, ready, reason } = conditions.verdict();
  const { resources, devices, models, queue } = measured;
  return {
    status: ready ? 'ready' : 'not_ready',
    state,
    reason,
    version: identity.version,
    pid: identity.pid,
    started_at: identity.started_at,
    uptime_seconds: uptimeSeconds(),
    sampled_at: resources.sampledAt,
    conditions: conditions.all,
    queue,
    resources: {
      cpu_percent: resources.cpuPercent,
      rss_bytes: resources.rssBytes,
      system_memory_available_bytes: resources.memoryAvailableBytes,
      devices: devices.map((device) => measureDevice(device, resources)),
    },
    models,
    providers: measured.providers,
  };
}

export function statusRecord(
  identity: Identity,
  conditions: Conditions,
  local: Pick<LocalEngines, 'loadedModels' | 'loads'>,
  installedVersion: string | null,
): StatusRecord {
  const { last_exit, ...facts } = identity;
  return {
    state: conditions.verdict().state,
    ...facts,
    installed_version: installedVersion,
    uptime_seconds: uptimeSeconds(),
    models: local.loadedModels(),
    loads: local.loads(),
    last_exit,
  };
}

/** Returns the device with its memory. A CPU's memory is the system's, which ggml does not measure. */
function measureDevice(
  { name, backend, type, memory_total_bytes, memory_free_bytes }: DeviceRecord,
  resources: Resources,
): HealthRecord['resources']['devices'][number] {
  if (type !== 'cpu') return { name, backend, memory_total_bytes, memory_free_bytes };
  return { name, backend, memory_total_bytes: totalMemoryBytes(), memory_free_bytes: resources.memoryAvailableBytes };
}

/** Uptime of the process by the monotonic clock: the wall clock may be set while the daemon runs. */
function uptimeSeconds(): number {
  return Math.round(process.uptime() * 10) / 10;
}
