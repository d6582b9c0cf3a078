/**
 * Hugging Face's cache: `<folder>/models--OWNER--NAME/snapshots/REVISION/*.gguf`, links to `blobs/SHA-256`. The path of
 * the link is what is registered: a model in parts is found only by the names of its files.
 */
import { realpath } from 'node:fs/promises';
import { join } from 'node:path';
import type { Scan } from './found.ts';
import { filesBelow, foldersIn, MOST_ENTRIES, readSmall } from './inside.ts';
import { addRepository } from './repository.ts';

const REVISION_BYTES = 100;

/** @param root without links */
export async function scanHubCache(root: string): Promise<Scan> {
  const scan: Scan = { models: [], refused: [] };
  const budget = { left: MOST_ENTRIES };
  for (const name of await foldersIn(root, scan.refused)) {
    const [kind, owner, ...model] = name.split('--');
    if (kind !== 'models' || owner === undefined || model.length === 0) continue;
    const repo = `${owner}/${model.join('--')}`;
    const place = join(root, name);
    const main = await readSmall(join(place, 'refs', 'main'), REVISION_BYTES).catch(() => '');
    const snapshots = join(place, 'snapshots');
    const revisions = await foldersIn(snapshots, scan.refused);
    // That of refs/main first, so that its files have the plain names.
    revisions.sort((a, b) => Number(b === main.trim()) - Number(a === main.trim()));
    const seen = new Set<string>();
    for (const [index, revision] of revisions.entries()) {
      const folder = join(snapshots, revision);
      const { files, refused } = await filesBelow(folder, /\.gguf$/i, 3, budget);
      scan.refused.push(...refused);
      const paths: string[] = [];
      for (const file of files) {
        const real = await realpath(file).catch(() => file);
        if (!seen.has(real)) paths.push(file);
        seen.add(real);
      }
      await addRepository(
        {
          repo,
          suffix: index === 0 ? '' : `@${revision.slice(0, 12)}`,
          folder,
          paths,
          root: place,
          sourceOf: (file) => `hf:${repo}:${file}${index === 0 ? '' : `@${revision}`}`,
        },
        scan,
      );
    }
  }
  return scan;
}
