/** Finds the projector of a model file that lies in a directory of the user, as hubs name them. */
import { readdir, stat } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import type { ModelRecord } from '../../protocol/records.ts';
import { FileFacts } from '../gguf/file-facts.ts';
import { checkProjector } from '../gguf/gguf.ts';

const MOST_FILES = 10_000;
const TYPE = /[-._](f16|bf16|f32|i?q\d\w*)$/i;

/**
 * A projector has `mmproj` in its name. If the rest of the name is a model's (`mmproj-NAME-f16.gguf`), it belongs to
 * the models whose names begin with it; otherwise (`mmproj-f16.gguf`) to all in its directory. undefined: there is
 * none, or more than one that is as likely.
 */
export async function projectorBeside(modelPath: string): Promise<ModelRecord['projector']> {
  const folder = dirname(modelPath);
  const names = await readdir(folder).catch(() => []);
  if (names.length > MOST_FILES) return undefined;
  const model = plain(basename(modelPath));
  const ranked = names
    .filter((name) => /mmproj/i.test(name) && /\.gguf$/i.test(name) && name !== basename(modelPath))
    .map((name) => ({ name, of: plain(name.replace(/mmproj/i, '').replace(/^[-._]*(model)?[-._]*/i, '-')) }))
    .filter(({ of }) => model.startsWith(of))
    .sort((a, b) => b.of.length - a.of.length);
  const [best, next] = ranked;
  if (best === undefined || next?.of.length === best.of.length) return undefined;
  const path = join(folder, best.name);
  const found = await stat(path).catch(() => null);
  if (found?.isFile() !== true || !(await valid.of(path))) return undefined;
  return { path, digest: null, size_bytes: found.size };
}

/** Not every request reads the file. */
const valid = new FileFacts<boolean>({
  read: async ([path = '']) =>
    await checkProjector(path).then(
      () => true,
      () => false,
    ),
});

/** A file's name without its type of weights, and without what separates words. */
function plain(name: string): string {
  return name
    .replace(/\.gguf$/i, '')
    .replace(TYPE, '')
    .replace(/[-._]+/g, '')
    .toLowerCase();
}
