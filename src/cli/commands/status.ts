import { ControlClient } from '../../client/control-client.ts';
import { lastExit } from '../../home/last-exit.ts';
import { resolvePaths, type Paths } from '../../home/paths.ts';
import { ERRORS, SvcError } from '../../protocol/errors.ts';
import type { LoadedModelHealth, ReadyRecord, StatusRecord } from '../../protocol/records.ts';
import { jsonFlag, type Run, type Spec } from '../spec.ts';
import { sayIfOther } from '../machine/other-version.ts';
import { bytes, count, duration, text } from '../terminal/format.ts';
import { facts, table } from '../terminal/layout.ts';
import { out } from '../terminal/output.ts';
import { printResult } from '../terminal/result.ts';

export const spec = {
  summary: 'Show whether the daemon is running, its addresses and its loaded models',
  flags: { json: jsonFlag },
  examples: ['svc status', 'svc status --json'],
} as const satisfies Spec;

export const run: Run<typeof spec> = async ({ json }) => {
  const paths = resolvePaths();
  const { status, ready } = await ask(paths);
  printResult(json, status, describe(status, ready));
  sayIfOther(status);
  if (ready === null) return ERRORS.DAEMON_NOT_RUNNING.exit;
  return ready.status === 'ready' ? 0 : ERRORS.NOT_READY.exit;
};

/** `ready` is null if no daemon is running. */
async function ask(paths: Paths): Promise<{ status: StatusRecord; ready: ReadyRecord | null }> {
  const client = new ControlClient(paths.socketPath);
  try {
    const [status, ready] = await Promise.all([client.status(), client.ready()]);
    return { status, ready };
  } catch (error) {
    if (error instanceof SvcError && error.code === 'DAEMON_NOT_RUNNING')
      return { status: stopped(paths), ready: null };
    throw error;
  }
}

function stopped(paths: Paths): StatusRecord {
  return {
    state: 'STOPPED',
    pid: null,
    mode: null,
    version: null,
    installed_version: null,
    http: null,
    grpc: null,
    ollama: null,
    socket: paths.socketPath,
    log_path: paths.logFile,
    started_at: null,
    uptime_seconds: null,
    models: [],
    loads: [],
    last_exit: lastExit(paths.daemonFile),
  };
}

function describe(status: StatusRecord, ready: ReadyRecord | null): string {
  const exit = status.last_exit;
  const rows: [string, string][] = [['state', paintState(status.state, ready)]];
  if (status.state === 'STOPPING') rows.push(['', 'it drains: it is stopping, or a drain was requested']);
  for (const condition of ready?.conditions ?? []) {
    if (condition.status !== 'ok') rows.push(['', `${condition.name}: ${condition.reason}`]);
  }
  if (ready !== null) {
    rows.push(
      ['pid', `${String(status.pid)} (${text(status.mode)})`],
      ['version', text(status.version)],
      ['http', status.http === null ? text(null) : `http://${status.http}`],
      ['grpc', text(status.grpc)],
    );
    if (status.ollama !== null) rows.push(['ollama', `http://${status.ollama}`]);
    rows.push(['uptime', duration(status.uptime_seconds)]);
  }
  rows.push(['socket', status.socket], ['log', status.log_path]);
  if (exit !== null) rows.push(['last exit', `${exit.at}, ${exit.reason}`]);
  const parts = [facts(rows, out.tableColumns)];
  if (status.models.length > 0) parts.push(modelTable(status.models));
  if (ready === null) parts.push('Start it with `svc start`.');
  return parts.join('\n\n');
}

function paintState(state: StatusRecord['state'], ready: ReadyRecord | null): string {
  if (ready === null) return out.dim(state);
  if (ready.status !== 'ready') return out.red(state);
  return state === 'READY' ? out.green(state) : out.yellow(state);
}

/** Shared by `status` and `health`. */
export function modelTable(models: readonly LoadedModelHealth[]): string {
  const rows = models.map((model) => [
    model.id,
    model.state,
    bytes(model.rss_bytes),
    count(model.context_length),
    String(model.active),
    String(model.waiting),
    model.tokens_per_second === null ? text(null) : model.tokens_per_second.toFixed(1),
    text(model.pid === null ? null : String(model.pid)),
  ]);
  return table(
    [['MODEL', 'STATE', 'MEMORY', 'CONTEXT', 'ACTIVE', 'WAITING', 'TOKENS/S', 'PID'], ...rows],
    out.tableColumns,
  );
}
