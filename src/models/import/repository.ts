/**
 * GGUF files of one repository in a folder, as LM Studio and the hub's cache have them: models with their projectors.
 */
import { readGgufHeader } from '../gguf/gguf.ts';
import { isFileError, whyOf } from '../../files/why.ts';
import { SvcError } from '../../protocol/errors.ts';
import { candidatesOf, isProjector, projectorOf, type ListedFile } from '../pull/choose.ts';
import type { FoundModel, Scan } from './found.ts';
import { sizeInside, Unusable } from './inside.ts';

export interface RepositoryOptions {
  /** `owner/name`. */
  readonly repo: string;
  /** Appended to the ids. */
  readonly suffix?: string;
  readonly folder: string;
  /** Absolute paths of the `.gguf` files in `folder`. */
  readonly paths: readonly string[];
  readonly root: string;
  /** `file`: path in the repository. */
  readonly sourceOf: (file: string) => string;
}

/** Adds the models of a repository to `scan`: one for each quantization, its parts together. */
export async function addRepository(options: RepositoryOptions, scan: Scan): Promise<void> {
  const { repo, suffix = '', folder, paths, root, sourceOf } = options;
  const files: ListedFile[] = [];
  for (const path of paths) {
    try {
      const sizeBytes = await sizeInside(path, root);
      // A file that is not GGUF is refused by itself, also a projector.
      await readGgufHeader(path);
      files.push({ path: path.slice(folder.length + 1).replaceAll('\\', '/'), sizeBytes, digest: null });
    } catch (error) {
      scan.refused.push({ path, reason: reasonOf(error, path) });
    }
  }
  const candidates = candidatesOf(files.filter((file) => !isProjector(file) && !/imatrix/i.test(file.path)));
  for (const { files: weights, label, stem } of candidates) {
    const [first] = weights;
    if (first === undefined) continue;
    const twins = candidates.filter((each) => each.label === label);
    const projector = projectorOf(files, weights);
    const model: FoundModel = {
      id: idOf(`${repo}:${label === null || twins.length > 1 ? stem : label}${suffix}`),
      source: sourceOf(first.path),
      path: `${folder}/${first.path}`,
      projector: projector === null ? null : `${folder}/${projector.path}`,
      adapters: [],
      settings: {},
      notes: [],
      root,
    };
    scan.models.push(model);
  }
}

/** Folders may have names that no model can have. */
function idOf(name: string): string {
  return name.replace(/[^\w./:@-]+/g, '-').slice(0, 128);
}

/** Why a file is refused, worded to follow its path. Rethrows what is not a fault of the file. */
export function reasonOf(error: unknown, path: string): string {
  if (error instanceof Unusable) return error.message;
  const isOfFile = error instanceof SvcError && ['MODEL_INVALID', 'MODEL_NOT_FOUND'].includes(error.code);
  if (isOfFile) return error.message.replace(`${path} `, '');
  if (isFileError(error)) return `cannot be read: ${whyOf(error)}`;
  throw error;
}
