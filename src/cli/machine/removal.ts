/** What `svc uninstall` removes: the list of it, which --dry-run shows, and the removal of exactly this list. */
import { lstat, readdir, realpath } from 'node:fs/promises';
import { homedir } from 'node:os';
import { join, sep } from 'node:path';
import { loadConfig } from '../../config/config.ts';
import { readText } from '../../files/open-file.ts';
import { bytesOf, removeIfEmpty, removeTree } from '../../files/tree.ts';
import { whyOf } from '../../files/why.ts';
import { belongingsOf, completionFiles, isOurs, type Belonging } from '../../home/belongings.ts';
import type { Paths } from '../../home/paths.ts';
import { isUnfinished } from '../../models/store/leftovers.ts';
import { besidesOf, isOllamas, RegistryFile, type RegistryEntry } from '../../models/store/registry.ts';
import { StorePaths } from '../../models/store/store-paths.ts';
import { variable } from '../../process/environment.ts';
import { SvcError } from '../../protocol/errors.ts';
import { say } from '../terminal/output.ts';

export interface Item {
  readonly what: string;
  readonly path: string;
  readonly size_bytes: number;
}

export interface Left {
  readonly path: string;
  readonly why: string;
}

type Listed = Pick<Removal, 'items' | 'left'>;

export interface Removal {
  readonly items: readonly Item[];
  /** What stays although it lies in a directory of svc, or is known to it. */
  readonly left: readonly Left[];
  /** Removed at the end if they are empty, the deepest first. */
  readonly directories: readonly string[];
  /** Files of the user below an item. */
  readonly kept: ReadonlySet<string>;
}

/** Throws CONFIG_INVALID if a directory of svc is the root, the user's home, or above it. */
export async function planRemoval(paths: Paths, keepModels: boolean): Promise<Removal> {
  const modelsDir = modelsDirOf(paths);
  const home = variable('SVC_HOME');
  const belongings = belongingsOf(paths, modelsDir);
  const directories = [...new Set(belongings.map(({ directory }) => directory))];
  for (const directory of [...directories, ...(home === undefined ? [] : [home])])
    await refuseWide(directory, belongings);

  const registry = await new RegistryFile(modelsDir).read().catch(() => null);
  const models = registry?.models ?? [];
  const inPlace = models.flatMap(({ id, path }) => (path === null ? [] : [{ id, path }]));
  // A file may belong to a model of both.
  const names = (await isOllamas(modelsDir)) ? new Map() : namesOfFiles(models, new StorePaths(modelsDir));
  const found: Listed[] = [];
  for (const directory of directories) {
    if (keepModels && directory === modelsDir) continue;
    const here = belongings.filter((each) => each.directory === directory);
    found.push(await listed(directory, here, directories, names));
  }
  const strangers = home === undefined ? [] : (await listed(home, [], directories, names)).left;
  const store = { path: modelsDir, why: 'the models: --keep-models' };
  return {
    items: [...found.flatMap(({ items }) => items), ...(home === undefined ? await completions() : [])],
    left: [
      ...found.flatMap(({ left }) => left),
      ...strangers,
      ...(keepModels ? [store] : []),
      ...inPlace.map(({ id, path }) => ({ path, why: `the model ${id} was added in its own place` })),
    ],
    directories: [...directories, ...(home === undefined ? [] : [home])].sort((a, b) => b.length - a.length),
    kept: new Set(inPlace.map(({ path }) => path)),
  };
}

/** Removes what is listed; resolves with what could not be removed, and why. */
export async function carryOut({ items, directories, kept }: Removal): Promise<Left[]> {
  const failed: Left[] = [];
  for (const path of [...items.map((item) => item.path), ...directories]) {
    try {
      await (directories.includes(path) ? removeOwnDirectory(path) : removeTree(path, kept));
    } catch (error) {
      failed.push({ path, why: whyOf(error) });
    }
  }
  return failed;
}

/** The store's folders of files, which are empty by now, and then the directory itself. A link stays. */
async function removeOwnDirectory(directory: string): Promise<void> {
  if ((await lstat(directory).catch(() => null))?.isDirectory() !== true) return;
  for (const folder of FOLDERS_OF_FILES) await removeIfEmpty(join(directory, folder));
  await removeIfEmpty(directory);
}

/** Without a readable config the default applies; where the models are is then not certain. */
function modelsDirOf(paths: Paths): string {
  try {
    return loadConfig(paths).models.dir ?? paths.modelsDir;
  } catch {
    say(`the config cannot be read: if it sets models.dir, that directory is not removed`);
    return paths.modelsDir;
  }
}

async function refuseWide(directory: string, belongings: readonly Belonging[]): Promise<void> {
  const real = await realpath(directory).catch(() => directory);
  const home = await realpath(homedir()).catch(() => homedir());
  const above = real.endsWith(sep) ? real : `${real}${sep}`;
  if (real !== home && !home.startsWith(above)) return;
  const what = real === home ? 'is your home directory' : 'holds your home directory';
  const found = (await Promise.all(belongings.map(namedAsOurs))).flat();
  throw new SvcError('CONFIG_INVALID', `${directory} ${what}: svc removes nothing in it`, {
    hint:
      found.length === 0
        ? 'nothing in the directories of svc has a name of its files'
        : `these have names of files of svc: look at them, and remove them yourself: ${found.join(', ')}`,
  });
}

/** Paths of the entries of a directory that have a name which svc gives. */
async function namedAsOurs(belonging: Belonging): Promise<string[]> {
  const names = await readdir(belonging.directory).catch(() => []);
  return names.filter((name) => isOurs(belonging, name)).map((name) => join(belonging.directory, name));
}

/** Folders whose files are listed one by one. */
const FOLDERS_OF_FILES: readonly string[] = ['blobs', 'parts'];

/** Lists a directory of svc. Entries that svc does not make, and links, are left. */
async function listed(
  directory: string,
  belongings: readonly Belonging[],
  directories: readonly string[],
  models: ReadonlyMap<string, string>,
): Promise<Listed> {
  const self = await lstat(directory).catch(() => null);
  if (self === null) return { items: [], left: [] };
  if (self.isSymbolicLink()) return { items: [], left: [{ path: directory, why: 'a link, which is not followed' }] };
  if (!self.isDirectory()) return { items: [], left: [{ path: directory, why: 'not a directory' }] };
  const items: Item[] = [];
  const left: Left[] = [];
  let names: readonly string[] = [];
  try {
    names = await readdir(directory);
  } catch (error) {
    left.push({ path: directory, why: whyOf(error) });
  }
  for (const name of names.toSorted()) {
    const path = join(directory, name);
    const belonging = belongings.find((each) => isOurs(each, name));
    if (belonging === undefined) {
      if (!directories.some((each) => each === path || each.startsWith(path + sep)))
        left.push({ path, why: 'not made by svc' });
    } else if ((await lstat(path)).isSymbolicLink()) {
      left.push({ path, why: 'a link, which is not followed' });
    } else if (belonging.what === 'model store' && FOLDERS_OF_FILES.includes(name)) {
      const stored = await storedFiles(path, models);
      items.push(...stored.items);
      left.push(...stored.left);
    } else {
      items.push({ what: belonging.what, path, size_bytes: await bytesOf(path) });
    }
  }
  return { items, left };
}

/** Content that no model of svc names is left: another program may have put it there. */
async function storedFiles(folder: string, models: ReadonlyMap<string, string>): Promise<Listed> {
  const items: Item[] = [];
  const left: Left[] = [];
  for (const name of (await readdir(folder).catch(() => [])).toSorted()) {
    const path = join(folder, name);
    const what = models.get(path) ?? (isUnfinished(name) ? 'model store' : undefined);
    if (what === undefined) left.push({ path, why: 'belongs to no model of svc' });
    else items.push({ what, path, size_bytes: await bytesOf(path) });
  }
  return { items, left };
}

/** Names of the files in the store, by path. */
function namesOfFiles(models: readonly RegistryEntry[], store: StorePaths): Map<string, string> {
  const names = new Map<string, string>();
  for (const entry of models) {
    const { id, path, digest, parts } = entry;
    for (const file of besidesOf(entry)) names.set(store.blob(file.digest), `model ${id}`);
    if (path === null) names.set(parts === undefined ? store.blob(digest) : store.parts(digest), `model ${id}`);
  }
  return names;
}

/** Completion scripts, known by their first lines. */
async function completions(): Promise<Item[]> {
  const items: Item[] = [];
  for (const path of completionFiles(homedir())) {
    const found = await lstat(path).catch(() => null);
    if (found?.isFile() !== true || found.size > MOST_SCRIPT_BYTES) continue;
    const text = await readText(path).catch(() => '');
    if (/^# \w+ completion for svc, made by `svc completion/m.test(text.slice(0, 200)))
      items.push({ what: 'completion', path, size_bytes: found.size });
  }
  return items;
}

const MOST_SCRIPT_BYTES = 1024 * 1024;
