/**
 * A model in several files (parts), as llama-gguf-split writes them. The metadata is in the first part; the others
 * have only their number and tensors, and are unusable alone.
 */
import { stat } from 'node:fs/promises';
import { basename } from 'node:path';
import { partsOf, readGgufHeader } from './gguf.ts';
import { PART, partName, partsBeside } from './part-names.ts';
import { SvcError } from '../../protocol/errors.ts';

/**
 * Returns all files of the model that `path` belongs to, in their order; for most models that file alone.
 * @throws SvcError MODEL_NOT_FOUND, also for a part that is missing; MODEL_INVALID
 */
export async function filesOfModel(path: string): Promise<string[]> {
  const count = partsOf(await readGgufHeader(path));
  if (count === 1) return [path];
  if (Number(PART.exec(basename(path))?.[3]) !== count) {
    throw new SvcError('MODEL_INVALID', `${path} is one of the ${count} parts of a model, but is not named like one`, {
      hint: `rename the parts to ${partName('NAME', 0, count)} and so on: libllama finds them by these names`,
    });
  }
  const files = partsBeside(path, count);
  for (const [index, file] of files.entries()) {
    const found = await stat(file).catch(() => null);
    if (found !== null) continue;
    throw new SvcError('MODEL_NOT_FOUND', `part ${index + 1} of ${count} is missing: there is no file ${file}`, {
      hint: 'put all parts into one folder, under their original names',
    });
  }
  return files;
}
