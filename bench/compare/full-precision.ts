/**
 * Test models with weights in F32. Our kernels round quantised products otherwise than ggml's, so only with such
 * weights do engines compute the same.
 */
import { execFile } from 'node:child_process';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';

const root = dirname(dirname(dirname(fileURLToPath(import.meta.url))));
const run = promisify(execFile);

/** Makes the test model `name` with weights in F32 in a folder. Resolves with the path of the file. */
export async function makeInFullPrecision(name: string, folder: string): Promise<string> {
  const path = join(folder, `${name}.gguf`);
  const maker = join(root, 'test', 'make-model', 'make-model.ts');
  await run(process.execPath, ['--import', 'tsx', maker, name, '--type', 'F32', '--out', path], { cwd: root });
  return path;
}
