/** LM Studio's models: `<folder>/PUBLISHER/REPOSITORY/*.gguf`. */
import { dirname, join, relative, sep } from 'node:path';
import type { Scan } from './found.ts';
import { filesBelow, MOST_ENTRIES } from './inside.ts';
import { addRepository } from './repository.ts';

/** @param root without links */
export async function scanLmStudio(root: string): Promise<Scan> {
  const { files, refused } = await filesBelow(root, /\.gguf$/i, 5, { left: MOST_ENTRIES });
  const scan: Scan = { models: [], refused };
  const repositories = new Map<string, string[]>();
  for (const file of files) {
    const [publisher, name, ...rest] = relative(root, file).split(sep);
    // A file that was put into the folder by hand, without both folders above it.
    const folder = rest.length === 0 ? dirname(file) : join(root, publisher ?? '', name ?? '');
    repositories.set(folder, [...(repositories.get(folder) ?? []), file]);
  }
  for (const [folder, paths] of repositories) {
    const repo = relative(root, folder).split(sep).join('/') || 'lmstudio';
    await addRepository({ repo, folder, paths, root, sourceOf: (file) => `lmstudio:${repo}/${file}` }, scan);
  }
  return scan;
}
