/** Entry point: parses the arguments, loads the one command, and exits with its code. */
import type { CommandName, Run } from './commands.ts';
import { guardOutput, out, print, report, setExitCode } from './terminal/output.ts';
import { parse, wantsJson } from './parse.ts';

/** Dynamic imports, so that each command loads only its own modules. */
const LOADERS: { readonly [Name in CommandName]: () => Promise<{ readonly run: Run<Name> }> } = {
  start: () => import('./commands/start.ts'),
  serve: () => import('./commands/serve.ts'),
  stop: () => import('./commands/stop.ts'),
  status: () => import('./commands/status.ts'),
  health: () => import('./commands/health.ts'),
  doctor: () => import('./commands/doctor.ts'),
  logs: () => import('./commands/logs.ts'),
  version: () => import('./commands/version.ts'),
  run: () => import('./commands/run.ts'),
  chat: () => import('./commands/chat.ts'),
  ps: () => import('./commands/ps.ts'),
  usage: () => import('./commands/usage.ts'),
  bench: () => import('./commands/bench.ts'),
  'model list': () => import('./commands/model/list.ts'),
  'model show': () => import('./commands/model/show.ts'),
  'model add': () => import('./commands/model/add.ts'),
  'model pull': () => import('./commands/model/pull.ts'),
  'model search': () => import('./commands/model/search.ts'),
  'model rm': () => import('./commands/model/rm.ts'),
  'model verify': () => import('./commands/model/verify.ts'),
  'model quantize': () => import('./commands/model/quantize.ts'),
  'model default': () => import('./commands/model/default.ts'),
  'model load': () => import('./commands/model/load.ts'),
  'model unload': () => import('./commands/model/unload.ts'),
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
  completion: () => import('./commands/completion.ts'),
  'service install': () => import('./commands/service/install.ts'),
  'service uninstall': () => import('./commands/service/uninstall.ts'),
  'service status': () => import('./commands/service/status.ts'),
};

async function main(argv: readonly string[]): Promise<number> {
  try {
    const parsed = parse(argv);
    if (parsed.kind === 'version') {
      const { VERSION } = await import('../config/version.ts');
      print(`svc ${VERSION}`);
      return 0;
    }
    if (parsed.kind === 'help') {
      const { help } = await import('./help.ts');
      print(help(parsed.topic, out.columns));
      return 0;
    }
    // Replaces the arguments in the process list, which would show the prompt to other users.
    process.title = `svc ${parsed.name}`;
    const { run } = await LOADERS[parsed.name]();
    // The parser has checked both against the command's entry in the table.
    return await run(parsed.flags as never, parsed.args as never);
  } catch (error) {
    return report(error, wantsJson(argv));
  }
}

guardOutput();
setExitCode(await main(process.argv.slice(2)));
