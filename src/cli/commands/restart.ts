/**
 * `svc restart`: ends the daemon and starts the version of this command in its place, with the settings of the old
 * daemon and its models. Conversations continue from prefix files, and background responses from their journals.
 *
 * Everything that would keep the new daemon from starting and can be known before is checked while the old one serves.
 */
import { ControlClient } from '../../client/control-client.ts';
import { loadConfig } from '../../config/config.ts';
import { readDaemonFile } from '../../home/daemon-file.ts';
import { resolvePaths, type Paths } from '../../home/paths.ts';
import { missingBuiltin } from '../../models/store/builtin.ts';
import { takeSettings } from '../../process/environment.ts';
import { SvcError } from '../../protocol/errors.ts';
import { given } from '../../protocol/given.ts';
import type { ProviderRecord, ReadyRecord, StatusRecord } from '../../protocol/records.ts';
import { serviceManager } from '../../service/manager.ts';
import { ensureDaemon, showStarting } from '../machine/daemon.ts';
import { loadAgain, type NotLoaded } from '../machine/load-again.ts';
import { sayIfOther } from '../machine/other-version.ts';
import { renewService } from '../machine/service.ts';
import { stopDaemon } from '../machine/stop-daemon.ts';
import { jsonFlag, type Run, type Spec } from '../spec.ts';
import { say, sayProgress } from '../terminal/output.ts';
import { printResult } from '../terminal/result.ts';

/** Time for the new daemon to answer. */
const START_MS = 60_000;
/** Time for it to load the default model: without the daemon, the other models would not be loaded again. */
const STARTING_MS = 600_000;

export const spec = {
  summary: 'Restart the daemon, after an update with the new version',
  detail: [
    'Running generations may finish until the timeout; then they are cancelled. The new daemon gets the settings of the old one and loads its models. Starts the daemon if none is running.',
  ],
  flags: {
    'drain-timeout': {
      kind: 'duration',
      value: 'TIME',
      default: '30s',
      summary: 'how long running generations may take to finish',
    },
    json: jsonFlag,
  },
  examples: ['svc restart', 'svc restart --drain-timeout 5m', 'svc restart --json'],
} as const satisfies Spec;

export const run: Run<typeof spec> = async ({ 'drain-timeout': drainMs, json }) => {
  const before = await look(resolvePaths());
  const isMoved = before !== null && (await prepare(before));
  const paths = resolvePaths();
  const killed = before !== null && (await stopDaemon(paths, { drainMs })).killed;
  if (isMoved) await serviceManager().releaseAddress();
  await start(paths, json, before);

  const client = new ControlClient(paths.socketPath);
  const not_loaded = await loadAgain(client, before?.status ?? null);
  for (const { model, message } of not_loaded) say(`${model} is not loaded again: ${message}`);
  if (before !== null) sayLostKeys(before.providers, await client.providers());
  const status = await client.status();
  const old = before === null ? null : { pid: before.status.pid, version: before.status.version, killed };
  printResult(json, { ...status, previous: old, not_loaded }, describe(status, old, not_loaded));
  sayIfOther(status);
  return not_loaded.length > 0 ? 1 : 0;
};

interface Before {
  readonly status: StatusRecord;
  readonly ready: ReadyRecord;
  readonly providers: readonly ProviderRecord[];
}

/** Returns null if no daemon is running. Throws NOT_READY if it does not answer. */
async function look(paths: Paths): Promise<Before | null> {
  const client = new ControlClient(paths.socketPath);
  try {
    const [status, ready, providers] = await Promise.all([client.status(), client.ready(), client.providers()]);
    return { status, ready, providers };
  } catch (error) {
    if (error instanceof SvcError && error.code === 'DAEMON_NOT_RUNNING') return null;
    throw error;
  }
}

/**
 * Applies the settings of the old daemon to this process, and checks that a new daemon could start with them. Resolves
 * with true if a service manager holds the HTTP address of the old one, and the new one has another (`renewService`).
 */
async function prepare({ status, ready }: Before): Promise<boolean> {
  if (status.mode === 'foreground') {
    throw new SvcError('INVALID_REQUEST', `the daemon runs in the foreground (pid ${String(status.pid)})`, {
      hint: 'end it where it was started (Ctrl-C, or `svc stop`), and start it there again: svc serve',
    });
  }
  const file = readDaemonFile(resolvePaths().daemonFile);
  if (file?.pid === status.pid && file.settings !== undefined) takeSettings(file.settings);
  const paths = resolvePaths();
  const config = loadConfig(paths);
  const hadEngine = ready.conditions.some(({ name, status: each }) => name === 'engine' && each !== 'fail');
  const missing = missingBuiltin();
  if (hadEngine && missing !== null) throw missing;
  return status.mode === 'service' && (await renewService(paths, config, status.http));
}

async function start(paths: Paths, json: boolean, before: Before | null): Promise<void> {
  try {
    const { trouble } = await ensureDaemon(paths, {
      timeoutMs: START_MS,
      startingMs: STARTING_MS,
      moreTime: 'wait with `svc start --timeout 30m`',
      onStarting: showStarting,
      json,
    });
    if (trouble !== null) throw trouble;
  } catch (error) {
    if (before === null || !(error instanceof SvcError)) throw error;
    const message = `the old daemon has ended, but the new one does not serve: ${error.message}`;
    // The exit codes of NOT_READY and CONFIG_INVALID mean that the old daemon still runs.
    const code = ['NOT_READY', 'CONFIG_INVALID'].includes(error.code) ? 'INTERNAL' : error.code;
    throw new SvcError(code, message, given({ hint: withModels(error.hint, before.status) }));
  } finally {
    sayProgress('');
  }
}

/** Adds to a hint which models the old daemon had, because they are not loaded again. */
function withModels(hint: string | undefined, { loads }: StatusRecord): string | undefined {
  if (hint === undefined || loads.length === 0) return hint;
  const models = loads.map(({ model }) => model).join(', ');
  return `${hint}; when it serves, load again with \`svc model load\`: ${models}`;
}

/** A key that only the old daemon had is gone with it. */
function sayLostKeys(before: readonly ProviderRecord[], now: readonly ProviderRecord[]): void {
  for (const { name, credential } of now) {
    const old = before.find((each) => each.name === name)?.credential;
    if (old?.present !== true || credential.present) continue;
    const why = old.source === 'memory' ? 'was lent to the old daemon' : `was in ${old.name ?? 'its environment'}`;
    say(`the key of ${name} ${why} and is missing now: set the variable and restart, or \`svc provider set ${name}\``);
  }
}

function describe(
  { version, pid, http, loads }: StatusRecord,
  old: { readonly version: string | null } | null,
  notLoaded: readonly NotLoaded[],
): string {
  const from = old === null || old.version === version ? '' : `, after ${String(old.version)}`;
  const address = http === null ? '' : ` at http://${http}`;
  const models = loads.map(({ model }) => model).filter((id) => !notLoaded.some(({ model }) => model === id));
  const loaded = models.length === 0 ? '' : `; loaded: ${models.join(', ')}`;
  return `svc ${String(version)} is ready${from} (pid ${String(pid)})${address}${loaded}`;
}
