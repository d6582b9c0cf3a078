/** The list of commands, in the order of the help. Each is loaded only when it is used. */
import type { Exit, Spec, Specs } from './spec.ts';

interface CommandModule {
  readonly spec: Spec;
  /** `Run<typeof spec>`; its parameters differ from command to command. */
  readonly run: (
    flags: never,
    args: never,
    loadSpecs: () => Promise<Specs>,
    rest: readonly string[],
  ) => Exit | Promise<Exit>;
}

export const COMMANDS = {
  start: () => import('./commands/start.ts'),
  serve: () => import('./commands/serve.ts'),
  stop: () => import('./commands/stop.ts'),
  restart: () => import('./commands/restart.ts'),
  status: () => import('./commands/status.ts'),
  health: () => import('./commands/health.ts'),
  doctor: () => import('./commands/doctor.ts'),
  logs: () => import('./commands/logs.ts'),
  version: () => import('./commands/version.ts'),
  run: () => import('./commands/run.ts'),
  chat: () => import('./commands/chat.ts'),
  launch: () => import('./commands/launch.ts'),
  open: () => import('./commands/open.ts'),
  ps: () => import('./commands/ps.ts'),
  usage: () => import('./commands/usage.ts'),
  bench: () => import('./commands/bench.ts'),
  'model list': () => import('./commands/model/list.ts'),
  'model show': () => import('./commands/model/show.ts'),
  'model add': () => import('./commands/model/add.ts'),
  'model create': () => import('./commands/model/create.ts'),
  'model import': () => import('./commands/model/import.ts'),
  'model pull': () => import('./commands/model/pull.ts'),
  'model search': () => import('./commands/model/search.ts'),
  'model rm': () => import('./commands/model/rm.ts'),
  'model verify': () => import('./commands/model/verify.ts'),
  'model quantize': () => import('./commands/model/quantize.ts'),
  'model default': () => import('./commands/model/default.ts'),
  'model load': () => import('./commands/model/load.ts'),
  'model unload': () => import('./commands/model/unload.ts'),
  'history list': () => import('./commands/history/list.ts'),
  'history show': () => import('./commands/history/show.ts'),
  'history rm': () => import('./commands/history/rm.ts'),
  'history clear': () => import('./commands/history/clear.ts'),
  'gpu list': () => import('./commands/gpu/list.ts'),
  'gpu install': () => import('./commands/gpu/install.ts'),
  'gpu rm': () => import('./commands/gpu/rm.ts'),
  'key add': () => import('./commands/key/add.ts'),
  'key list': () => import('./commands/key/list.ts'),
  'key rm': () => import('./commands/key/rm.ts'),
  'provider list': () => import('./commands/provider/list.ts'),
  'provider set': () => import('./commands/provider/set.ts'),
  'provider unset': () => import('./commands/provider/unset.ts'),
  'provider test': () => import('./commands/provider/test.ts'),
  'provider models': () => import('./commands/provider/models.ts'),
  'config show': () => import('./commands/config/show.ts'),
  'config get': () => import('./commands/config/get.ts'),
  'config set': () => import('./commands/config/set.ts'),
  'config unset': () => import('./commands/config/unset.ts'),
  'config validate': () => import('./commands/config/validate.ts'),
  'config path': () => import('./commands/config/path.ts'),
  uninstall: () => import('./commands/uninstall.ts'),
  completion: () => import('./commands/completion.ts'),
  'service install': () => import('./commands/service/install.ts'),
  'service uninstall': () => import('./commands/service/uninstall.ts'),
  'service status': () => import('./commands/service/status.ts'),
} as const satisfies Record<string, () => Promise<CommandModule>>;

export type CommandName = keyof typeof COMMANDS;

export function isCommand(name: string): name is CommandName {
  return Object.hasOwn(COMMANDS, name);
}

/** Loads all commands, which the help of svc, the man page and shell completion need. */
export async function loadSpecs(): Promise<Readonly<Record<CommandName, Spec>>> {
  const loading = Object.entries(COMMANDS).map(async ([name, load]): Promise<[string, Spec]> => [
    name,
    (await load()).spec,
  ]);
  return Object.fromEntries(await Promise.all(loading)) as Record<CommandName, Spec>;
}
