/** How the program was installed, as far as its place shows: what removes it. */
import { existsSync, readdirSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { readTextSync } from '../../files/open-file.ts';
import { PACKAGE } from '../../process/native-package.ts';
import { ownPlace } from '../../process/own-program.ts';
import { orElse } from '../../protocol/foreign-text.ts';

/** Folders in which other package managers than npm install programs, and their commands. */
const MANAGERS: readonly (readonly [folder: RegExp, command: string])[] = [
  [/[\\/]pnpm[\\/]global[\\/]/, 'pnpm rm -g'],
  [/[\\/]yarn[\\/](?:data[\\/]|config[\\/])?global[\\/]/i, 'yarn global remove'],
  [/[\\/]\.bun[\\/]install[\\/]global[\\/]/, 'bun rm -g'],
];

/**
 * Returns the command that removes the program, or which file or folder to delete. `path`: the single executable, or the
 * folder of the package or checkout. `system`: the root directory, with the databases of package managers.
 */
export function removalOfProgram(path: string = ownPlace(), system = '/'): string {
  return ofSystem(path, system) ?? ofHomebrew(path) ?? ofNode(path) ?? `delete ${path}`;
}

function ofSystem(path: string, system: string): string | undefined {
  const debian = orElse(() => readTextSync(join(system, 'var/lib/dpkg/info', `${PACKAGE}.list`)), '');
  if (debian.split('\n').includes(path)) return `sudo apt remove ${PACKAGE}`;
  const pacman = join(system, 'var/lib/pacman/local');
  // A folder NAME-VERSION-RELEASE for each package; names in the AUR may have an ending such as -bin.
  const folders = orElse(() => readdirSync(pacman), []).filter((name) => name.startsWith(PACKAGE));
  const owner = folders.find((name) => {
    const files = orElse(() => readTextSync(join(pacman, name, 'files')), '').split('\n');
    return [path.slice(1), `${path.slice(1)}/`].some((each) => files.includes(each));
  });
  return owner === undefined ? undefined : `sudo pacman -R ${owner.replace(/-[^-]+-[^-]+$/, '')}`;
}

function ofHomebrew(path: string): string | undefined {
  const formula = /[\\/]Cellar[\\/]([^\\/]+)[\\/]/.exec(path)?.[1];
  return formula === undefined ? undefined : `brew uninstall ${formula}`;
}

/** npm's command, or that of another package manager for Node; undefined if it was not installed by any. */
function ofNode(path: string): string | undefined {
  const modules = dirname(path);
  if (basename(modules) !== 'node_modules') return undefined;
  const other = MANAGERS.find(([folder]) => folder.test(path));
  if (other !== undefined) return `${other[1]} ${PACKAGE}`;
  // pnpm keeps the packages of a project in a folder of its node_modules.
  const [, ofPnpm] = /^(.+)[\\/]node_modules[\\/]\.pnpm[\\/]/.exec(path) ?? [];
  if (ofPnpm !== undefined) return `pnpm rm ${PACKAGE}, in ${ofPnpm}`;
  const project = dirname(modules);
  // npx has a folder for each package that it has run.
  if (basename(dirname(project)) === '_npx') return `delete ${project}`;
  // A project has a manifest beside its node_modules, npm's global folder has none.
  if (existsSync(join(project, 'package.json'))) return `npm rm ${PACKAGE}, in ${project}`;
  // The package of the platform is there as well if it was installed by its own name.
  const names = orElse(() => readdirSync(modules), []).filter((name) => name.startsWith(`${PACKAGE}-`));
  return ['npm rm -g', PACKAGE, ...names].join(' ');
}
