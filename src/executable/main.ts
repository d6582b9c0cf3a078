/** Entry point of the single executable: the command line, or an engine process if its first argument says so. */
import { unpackWith } from '../process/own-files.ts';
import { ENGINE_ARGUMENT } from '../process/own-program.ts';
import { unpackedFolder } from './unpack.ts';

unpackWith(unpackedFolder);
if (process.argv[2] === ENGINE_ARGUMENT) void import('../engine/main.ts');
else void import('../cli/main.ts');
