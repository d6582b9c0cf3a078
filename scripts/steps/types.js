/** The type declarations that the package publishes: those of its entry, and those that they import. */
import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';

/** A relative import. tsc leaves the extension of the source in declarations, which not every resolver accepts. */
const IMPORT = /((?:from |import\()'\.[^']*)\.ts'/g;

/** Copies `entry` and all declarations that it needs, however indirectly, from one folder to another. */
export async function publishTypes(from, to, entry) {
  const wanted = [entry];
  // The list grows while it is read.
  for (const path of wanted) {
    const text = await readFile(join(from, path), 'utf8');
    for (const [, start = ''] of text.matchAll(IMPORT)) {
      const imported = join(dirname(path), `${start.slice(start.indexOf("'") + 1)}.d.ts`);
      if (!wanted.includes(imported)) wanted.push(imported);
    }
    await mkdir(dirname(join(to, path)), { recursive: true });
    await writeFile(join(to, path), text.replaceAll(IMPORT, "$1.js'"));
  }
}
