/** Entry point: loads the one command that the arguments name, runs it, and exits with its code. */
import { COMMANDS, loadSpecs } from './commands.ts';
import { guardOutput, out, print, report, setExitCode } from './terminal/output.ts';
import { dispatch, parse, wantsJson } from './parse.ts';

const NEVER_ENDED = 13;

async function main(argv: readonly string[]): Promise<number> {
  try {
    return await dispatch(argv, {
      async version() {
        const { VERSION } = await import('../config/version.ts');
        print(`svc ${VERSION}`);
        return 0;
      },
      async help(topic) {
        const { help } = await import('./help.ts');
        print(await help(topic, out.columns));
        return 0;
      },
      async command(name, rest) {
        // Replaces the arguments in the process list, which would show the prompt to other users.
        process.title = `svc ${name}`;
        const { spec, run } = await COMMANDS[name]();
        const { flags, args, rest: passedOn } = parse(name, spec, rest);
        // The parser has checked both against the spec.
        return (await run(flags as never, args as never, loadSpecs, passedOn)) ?? 0;
      },
    });
  } catch (error) {
    return report(error, wantsJson(argv));
  }
}

guardOutput();
// As Node does if the main module never ends. No `await` here: the single executable is CommonJS.
setExitCode(NEVER_ENDED);
void main(process.argv.slice(2)).then(setExitCode);
