/** Configures CMake's build folders. Empties one first if CMake refuses it, or would use outdated settings. */
import { readFile, rm, writeFile } from 'node:fs/promises';
import { inRoot } from './root.js';
import { StepError } from './run.js';

/** Environment variables that CMake reads only when it configures an empty folder. */
const READ_ONCE = ['CC', 'CXX', 'CFLAGS', 'CXXFLAGS', 'LDFLAGS'];
/** CMake's errors about a folder of another generator, and about one that was moved or copied. */
const OF_ANOTHER = /generator : |CMakeCache\.txt directory/;

/** Values of these variables. */
export const readOnce = () => READ_ONCE.map((name) => process.env[name] ?? '');

/**
 * Calls `configure`, which runs CMake for the build folder. Removes the folder before if it was configured with other
 * compilers or flags, and after an error that only an empty folder mends.
 */
export async function configureFolder(folder, configure) {
  const record = inRoot(folder, 'environment.json');
  const wanted = JSON.stringify(readOnce());
  const remove = () => rm(inRoot(folder), { recursive: true, force: true });
  // A folder without the file: without any of the variables.
  const found = await readFile(record, 'utf8').catch(() => JSON.stringify(READ_ONCE.map(() => '')));
  if (found !== wanted) await remove();
  try {
    await configure();
  } catch (error) {
    if (!(error instanceof StepError) || !OF_ANOTHER.test(error.message)) throw error;
    await remove();
    await configure();
  }
  await writeFile(record, wanted);
}
