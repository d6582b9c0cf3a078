/**
 * Runs commands one after the other in this process, each at the width that its call names, and prints a line before
 * each: a process for each call would take minutes. Started on a terminal by terminal-width.test.ts.
 */
import { readFileSync } from 'node:fs';
import { COMMANDS, loadSpecs } from '../../src/cli/commands.ts';
import { dispatch, parse } from '../../src/cli/parse.ts';
import { report } from '../../src/cli/terminal/output.ts';

interface Call {
  readonly columns: number;
  readonly args: readonly string[];
}

const calls = JSON.parse(readFileSync(process.argv[2] ?? '', 'utf8')) as Call[];
for (const [index, { columns, args }] of calls.entries()) {
  process.env['COLUMNS'] = String(columns);
  process.stdout.write(`<<<${String(index)}>>>\n`);
  try {
    await dispatch(args, {
      version: () => Promise.resolve(),
      help: () => Promise.resolve(),
      async command(name, rest) {
        const { spec, run } = await COMMANDS[name]();
        const parsed = parse(name, spec, rest);
        await run(parsed.flags as never, parsed.args as never, loadSpecs, parsed.rest);
      },
    });
  } catch (error) {
    report(error, false);
  }
}
process.exit(0);
