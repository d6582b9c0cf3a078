/** The service manager of this user: the paths of its files, and its commands. */
import { execFile } from 'node:child_process';
import { homedir, userInfo } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { promisify } from 'node:util';
import { childEnvironment, variable } from '../process/environment.ts';
import { installedCommand } from '../process/own-program.ts';
import { SvcError } from '../protocol/errors.ts';
import type { ServiceDefinition } from './definition.ts';
import { AGENT_LABEL, launchAgent } from './launchd-agent.ts';
import { scheduledTask, serviceScript, TASK_NAME } from './scheduled-task.ts';
import { SERVICE_UNIT, serviceUnit, SOCKET_UNIT, socketUnit, unitPath } from './systemd-unit.ts';

/** One file of the definition. */
export interface ServiceFile {
  readonly path: string;
  /** null: the file must not exist. */
  readonly text: string | null;
}

export interface Manager {
  readonly name: 'systemd' | 'launchd' | 'Task Scheduler';
  /** Paths of all files that an installation may have. */
  readonly paths: readonly string[];
  files(definition: ServiceDefinition): readonly ServiceFile[];
  /** Loads the files, and starts the service now and at every login. */
  enable(): Promise<void>;
  /** Stops and disables the service. Succeeds if it is not enabled. REQUIRES: its files still exist. */
  disable(): Promise<void>;
  /** Keeps the manager from starting again, after a crash, a service that was killed; it starts at the next login. */
  stop(): Promise<void>;
  /** Makes the manager read the files again, after they were changed or deleted. */
  reload(): Promise<void>;
  /**
   * Makes the next start bind the HTTP address of the files, which may be new: enables the manager's socket, and closes
   * it. REQUIRES: the service is stopped, because it ends with its socket.
   */
  releaseAddress(): Promise<void>;
  /** null: the manager does not respond. */
  state(): Promise<{ readonly enabled: boolean; readonly active: boolean } | null>;
}

/** Timeout of a command; a stop waits for the drain. */
const COMMAND_MS = 90_000;
/** Poll interval while a launchd agent stops. */
const POLL_MS = 100;

/** Throws INVALID_REQUEST on platforms without a supported service manager. */
export function serviceManager(platform: NodeJS.Platform = process.platform): Manager {
  if (platform === 'linux') return systemd;
  if (platform === 'darwin') return launchd;
  if (platform === 'win32') return taskScheduler;
  throw new SvcError('INVALID_REQUEST', `svc cannot be installed as a service on ${platform}`, {
    hint: "configure the system's service manager to run `svc serve --mode service`",
  });
}

const systemd: Manager = {
  name: 'systemd',
  get paths() {
    return [unitPath(SERVICE_UNIT), unitPath(SOCKET_UNIT)];
  },
  files(definition) {
    const { address } = definition;
    return [
      { path: unitPath(SERVICE_UNIT), text: serviceUnit(definition) },
      { path: unitPath(SOCKET_UNIT), text: address === null ? null : socketUnit(address) },
    ];
  },
  async enable() {
    await this.reload();
    await systemctl('enable', SERVICE_UNIT);
    // The address may have changed. Stopping the socket stops the service; the restart starts both.
    await this.releaseAddress();
    await systemctl('restart', SERVICE_UNIT);
  },
  async disable() {
    await systemctl('disable', '--now', SOCKET_UNIT).catch(() => undefined);
    await systemctl('disable', '--now', SERVICE_UNIT);
  },
  async stop() {
    await systemctl('stop', SERVICE_UNIT);
  },
  async reload() {
    await systemctl('daemon-reload');
  },
  async releaseAddress() {
    // There is no socket unit if systemd cannot bind the address.
    await systemctl('enable', SOCKET_UNIT).catch(() => undefined);
    await systemctl('stop', SOCKET_UNIT).catch(() => undefined);
  },
  async state() {
    try {
      const shown = await systemctl('show', '--property=ActiveState,UnitFileState', SERVICE_UNIT);
      return { enabled: /^UnitFileState=enabled$/m.test(shown), active: /^ActiveState=active$/m.test(shown) };
    } catch {
      return null;
    }
  },
};

const launchd: Manager = {
  name: 'launchd',
  get paths() {
    return [agentPath()];
  },
  files: (definition) => [{ path: agentPath(), text: launchAgent(definition) }],
  async enable() {
    await this.disable();
    // `launchctl disable` outlasts the agent's files, so it is undone.
    await launchctl('enable', agentTarget());
    await launchctl('bootstrap', userDomain(), agentPath());
  },
  async disable() {
    await launchctl('bootout', agentTarget()).catch(() => undefined);
    // launchd may return before the daemon has drained, and loads no second agent until then.
    const start = performance.now();
    while (await isLoaded()) {
      if (performance.now() - start > COMMAND_MS)
        throw new SvcError('INTERNAL', `launchd did not stop ${AGENT_LABEL} in ${String(COMMAND_MS / 1000)} s`, {
          hint: `see \`launchctl print ${agentTarget()}\``,
        });
      await sleep(POLL_MS);
    }
  },
  // launchd has no stop that outlasts a crash: the agent is unloaded.
  async stop() {
    await this.disable();
  },
  reload: () => Promise.resolve(),
  releaseAddress: () => Promise.resolve(),
  async state() {
    const shown = await launchctl('print', agentTarget()).catch(() => null);
    // The domain exists while the user is logged in at the screen, not with SSH alone.
    if (shown === null && (await launchctl('print', userDomain()).catch(() => null)) === null) return null;
    return { enabled: shown !== null, active: /^[ \t]*state = running$/m.test(shown ?? '') };
  },
};

async function isLoaded(): Promise<boolean> {
  const print = launchctl('print', agentTarget());
  return await print.then(
    () => true,
    () => false,
  );
}

const taskScheduler: Manager = {
  name: 'Task Scheduler',
  get paths() {
    return [scriptPath(), taskPath()];
  },
  files: (definition) => [
    { path: scriptPath(), text: serviceScript(definition) },
    { path: taskPath(), text: scheduledTask(taskUser(), scriptPath()) },
  ],
  async enable() {
    await this.disable();
    await schtasks('/Create', '/TN', TASK_NAME, '/XML', taskPath(), '/F');
    await schtasks('/Run', '/TN', TASK_NAME);
  },
  async disable() {
    // An ended task would be killed: the daemon drains only if it is asked.
    const [program = '', ...args] = installedCommand();
    await command(program, [...args, 'stop']);
    await schtasks('/End', '/TN', TASK_NAME).catch(() => undefined);
    await schtasks('/Delete', '/TN', TASK_NAME, '/F').catch(() => undefined);
  },
  // A task is not started again after a crash.
  stop: () => Promise.resolve(),
  reload: () => Promise.resolve(),
  releaseAddress: () => Promise.resolve(),
  async state() {
    // A number: the words of schtasks are in the system's language. Missing task: an empty line.
    const query = `[int](Get-ScheduledTask -TaskName ${TASK_NAME} -ErrorAction SilentlyContinue).State`;
    try {
      const shown = await command('powershell.exe', ['-NoProfile', '-NonInteractive', '-Command', query]);
      const state = Number(shown.trim());
      return { enabled: state > TASK_STATE.disabled, active: state === TASK_STATE.running };
    } catch {
      return null;
    }
  },
};

/** States that Get-ScheduledTask returns; 0: there is no such task. */
const TASK_STATE = { disabled: 1, running: 4 } as const;

function taskFolder(): string {
  return join(variable('LOCALAPPDATA') ?? join(homedir(), 'AppData', 'Local'), 'svc', 'Service');
}

function scriptPath(): string {
  return join(taskFolder(), 'serve.cmd');
}

function taskPath(): string {
  return join(taskFolder(), 'task.xml');
}

function taskUser(): string {
  return `${variable('USERDOMAIN') ?? '.'}\\${userInfo().username}`;
}

function agentPath(): string {
  return join(homedir(), 'Library', 'LaunchAgents', `${AGENT_LABEL}.plist`);
}

function userDomain(): string {
  return `gui/${String(process.getuid?.())}`;
}

function agentTarget(): string {
  return `${userDomain()}/${AGENT_LABEL}`;
}

async function systemctl(...args: readonly string[]): Promise<string> {
  return await command('systemctl', ['--user', '--no-ask-password', ...args]);
}

async function schtasks(...args: readonly string[]): Promise<string> {
  return await command('schtasks.exe', args);
}

async function launchctl(...args: readonly string[]): Promise<string> {
  return await command('launchctl', args);
}

const HINTS: Readonly<Record<string, string>> = {
  systemctl: 'see `journalctl --user -u svc.service`',
  launchctl: 'see `launchctl print`',
};

async function command(program: string, args: readonly string[]): Promise<string> {
  try {
    const { stdout } = await promisify(execFile)(program, args, { timeout: COMMAND_MS, env: childEnvironment() });
    return stdout;
  } catch (error) {
    const { stderr = '', code } = error as { stderr?: string; code?: string | number };
    const [why = ''] = stderr.trim().split('\n');
    throw new SvcError('INTERNAL', `${program} ${args.join(' ')} failed: ${why === '' ? String(code) : why}`, {
      hint: HINTS[program] ?? 'look for the task svc in the Task Scheduler',
      cause: error,
    });
  }
}
