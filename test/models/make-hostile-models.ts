/**
 * Writes the hostile model files of test/models/hostile-files.ts, to test other readers with them.
 *
 *   node --import tsx test/models/make-hostile-models.ts DIR
 */
import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { HOSTILE } from './hostile-files.ts';

const [dir] = process.argv.slice(2);
if (dir === undefined) {
  console.error('usage: make-hostile-models.ts DIR');
  process.exitCode = 2;
} else {
  await mkdir(dir, { recursive: true });
  for (const [what, bytes] of HOSTILE) {
    const name = what.replace(/[^a-zA-Z0-9^-]+/g, '-').replace(/^-|-$/g, '');
    await writeFile(join(dir, `${name}.gguf`), bytes);
  }
  console.log(`${HOSTILE.length} files in ${dir}`);
}
