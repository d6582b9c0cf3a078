/**
 * A model in several files, as llama-gguf-split writes them. The metadata is in the first; the others hold their
 * number and tensors, and mean nothing by themselves.
 */
import { stat } from 'node:fs/promises';
import { basename } from 'node:path';
import { partsOf, readGgufHeader } from './gguf.ts';
import { PART, partName, partsBeside } from './part-names.ts';
import { SvcError } from '../protocol/errors.ts';

/**
 * The files of the model of which `path` is one, in their order; of most models that file alone.
 * @throws SvcError MODEL_NOT_FOUND, also for a part that is missing; MODEL_INVALID
 */
export async function filesOfModel(path: string): Promise<string[]> {
  const count = partsOf(await readGgufHeader(path));
  if (count === 1) return [path];
  if (Number(PART.exec(basename(path))?.[3]) !== count) {
    throw new SvcError('MODEL_INVALID', `${path} is one of the ${count} parts of a model, and not named like one`, {
      hint: `name them ${partName('NAME', 0, count)} and so on, as libllama looks for them`,
    });
  }
  const files = partsBeside(path, count);
  for (const [index, file] of files.entries()) {
    const found = await stat(file).catch(() => null);
    if (found !== null) continue;
    throw new SvcError('MODEL_NOT_FOUND', `part ${index + 1} of ${count} is missing: there is no file ${file}`, {
      hint: 'all parts must lie in one folder, under the names that they were made with',
    });
  }
  return files;
}
