/** Skips steps whose inputs have not changed, by content. */
import { createHash } from 'node:crypto';
import { existsSync } from 'node:fs';
import { mkdir, readFile, readdir, rm, stat, writeFile } from 'node:fs/promises';
import { dirname, join, relative } from 'node:path';
import { inRoot, root } from './root.js';

/**
 * Runs `make` unless its inputs are unchanged since its last success and all outputs exist.
 *
 * `inputs`: files and whole folders; a missing one counts as a state of its own. `facts`: other values that the step
 * depends on. `outputs`: paths that must exist afterwards. All paths are relative to the repository.
 */
export async function unlessFresh(name, { inputs, facts = [], outputs }, make) {
  const stamp = inRoot('build', 'stamps', name);
  const wanted = await digest(inputs, facts);
  const isFresh = outputs.every((path) => existsSync(inRoot(path))) && (await textOf(stamp)) === wanted;
  if (isFresh) return;
  await rm(stamp, { force: true });
  await make();
  const missing = outputs.filter((path) => !existsSync(inRoot(path)));
  if (missing.length > 0) throw new Error(`${name} did not make ${missing.join(', ')}`);
  await mkdir(dirname(stamp), { recursive: true });
  await writeFile(stamp, wanted);
}

async function digest(inputs, facts) {
  const hash = createHash('sha256').update(JSON.stringify(facts));
  for (const input of inputs) {
    for (const file of await filesUnder(inRoot(input))) {
      const content = await readFile(file);
      hash.update(`${relative(root, file)}\0${content.length}\0`).update(content);
    }
  }
  return hash.digest('hex');
}

async function filesUnder(path) {
  const found = await stat(path).catch(() => null);
  if (found === null) return [];
  if (!found.isDirectory()) return [path];
  const names = (await readdir(path)).sort();
  return (await Promise.all(names.map((name) => filesUnder(join(path, name))))).flat();
}

const textOf = (path) => readFile(path, 'utf8').catch(() => null);
