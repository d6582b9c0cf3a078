/** Entry point: parses the arguments, loads the one command, and exits with its code. */
import type { CommandName, Run } from './commands.ts';
import { guardOutput, out, print, report, setExitCode } from './output.ts';
import { parse, wantsJson } from './parse.ts';

/** Dynamic imports, so that each command loads only its own modules. */
const LOADERS: { readonly [Name in CommandName]: () => Promise<{ readonly run: Run<Name> }> } = {
  start: () => import('./start.ts'),
  serve: () => import('./serve.ts'),
  stop: () => import('./stop.ts'),
  status: () => import('./status.ts'),
  health: () => import('./health.ts'),
  doctor: () => import('./doctor.ts'),
  logs: () => import('./logs.ts'),
  version: () => import('./version.ts'),
  run: () => import('./run.ts'),
  chat: () => import('./chat.ts'),
  ps: () => import('./ps.ts'),
  usage: () => import('./usage.ts'),
  bench: () => import('./bench.ts'),
  'model list': () => import('./model/list.ts'),
  'model show': () => import('./model/show.ts'),
  'model add': () => import('./model/add.ts'),
  'model pull': () => import('./model/pull.ts'),
  'model search': () => import('./model/search.ts'),
  'model rm': () => import('./model/rm.ts'),
  'model verify': () => import('./model/verify.ts'),
  'model quantize': () => import('./model/quantize.ts'),
  'model default': () => import('./model/default.ts'),
  'model load': () => import('./model/load.ts'),
  'model unload': () => import('./model/unload.ts'),
  'key add': () => import('./key/add.ts'),
  'key list': () => import('./key/list.ts'),
  'key rm': () => import('./key/rm.ts'),
  'provider list': () => import('./provider/list.ts'),
  'provider set': () => import('./provider/set.ts'),
  'provider unset': () => import('./provider/unset.ts'),
  'provider test': () => import('./provider/test.ts'),
  'provider models': () => import('./provider/models.ts'),
  'config show': () => import('./config/show.ts'),
  'config get': () => import('./config/get.ts'),
  'config set': () => import('./config/set.ts'),
  'config unset': () => import('./config/unset.ts'),
  'config validate': () => import('./config/validate.ts'),
  'config path': () => import('./config/path.ts'),
  completion: () => import('./completion.ts'),
  'service install': () => import('./service/install.ts'),
  'service uninstall': () => import('./service/uninstall.ts'),
  'service status': () => import('./service/status.ts'),
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
