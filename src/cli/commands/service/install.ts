import { ControlClient } from '../../../client/control-client.ts';
import { loadConfig } from '../../../config/config.ts';
import { resolvePaths, type Paths } from '../../../home/paths.ts';
import { SvcError } from '../../../protocol/errors.ts';
import { defineService } from '../../../service/definition.ts';
import { serviceManager, type Manager, type ServiceFile } from '../../../service/manager.ts';
import { jsonFlag, type Run, type Spec } from '../../spec.ts';
import { say } from '../../terminal/output.ts';
import { printResult } from '../../terminal/result.ts';
import { makeServiceDirectories, serviceFiles, textOf, writeServiceFiles } from '../../machine/service.ts';

export const spec = {
  summary: 'Run the daemon as a service of this user, now and at every login',
  detail: [
    'Uses systemd (user units) on Linux, launchd on macOS and the Task Scheduler on Windows. Run it again after an update or a change of address.',
  ],
  flags: { json: jsonFlag },
  examples: ['svc service install'],
} as const satisfies Spec;

export const run: Run<typeof spec> = async ({ json }) => {
  const manager = serviceManager();
  const paths = resolvePaths();
  await refuseBesideAnother(paths);
  const files = serviceFiles(manager, paths);
  makeServiceDirectories(defineService(paths, loadConfig(paths)));
  const before = files.map(({ path }) => ({ path, text: textOf(path) }));
  writeServiceFiles(files);
  const started = await enable(manager).catch(async (error: unknown) => {
    await restore(manager, before);
    throw error;
  });
  const written = files.flatMap(({ path, text }) => (text === null ? [] : [path]));
  const text = started ? `svc runs as a service of ${manager.name}` : `wrote ${written.join(' and ')}`;
  printResult(json, { manager: manager.name, files: written, started }, text);
};

/** Refuses if a daemon that is not a service holds the address. */
async function refuseBesideAnother(paths: Paths): Promise<void> {
  try {
    const { mode, pid } = await new ControlClient(paths.socketPath).status();
    if (mode === 'service') return;
    throw new SvcError('ALREADY_RUNNING', `svc is running already, not as a service (pid ${String(pid)})`, {
      hint: 'stop it first: svc stop',
    });
  } catch (error) {
    if (!(error instanceof SvcError) || error.code !== 'DAEMON_NOT_RUNNING') throw error;
  }
}

/** Puts the old files back, unless the manager has accepted the new ones and only the start failed. */
async function restore(manager: Manager, before: readonly ServiceFile[]): Promise<void> {
  if ((await manager.state())?.enabled === true) return;
  const isNew = before.every(({ text }) => text === null);
  // The manager may have done a part, and may refuse to undo it.
  if (isNew) await manager.disable().catch(() => undefined);
  writeServiceFiles(before);
  await manager.reload().catch(() => undefined);
}

/** Returns false if the manager is not running now (a container, a login without one); it will find the files later. */
async function enable(manager: Manager): Promise<boolean> {
  if ((await manager.state()) === null) {
    say(`the ${manager.name} of this user is not running: once it is, run \`svc service install\` again`);
    return false;
  }
  await manager.enable();
  return true;
}
