/** Runs clang-tidy, which takes seconds per file, only on files that changed since they passed, headers included. */
import { existsSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { availableParallelism } from 'node:os';
import { posix } from 'node:path';
import { writeCompileCommands } from './addon.js';
import { unpackLlamaCpp } from './llama-cpp.js';
import { inRoot } from './root.js';
import { run, StepError } from './run.js';
import { unlessFresh } from './unless-fresh.js';

/** Throws StepError with the findings in `files`, except those for another platform. */
export async function analyse(files) {
  await unpackLlamaCpp();
  const commands = await writeCompileCommands();
  const waiting = await compiledHere(files, commands);
  const failures = [];
  const worker = async () => {
    for (let file = waiting.shift(); file !== undefined; file = waiting.shift()) {
      await analyseOne(file, commands).catch((error) => failures.push(error));
    }
  };
  await Promise.all(Array.from({ length: availableParallelism() }, worker));
  if (failures.length > 0) throw new StepError(failures.map(({ message }) => message).join('\n'));
}

/** Returns those of `files` that have a compile command: clang-tidy would guess one for the others. */
async function compiledHere(files, commands) {
  const entries = JSON.parse(await readFile(inRoot(commands, 'compile_commands.json'), 'utf8'));
  const compiled = new Set(entries.map(({ file }) => file));
  return files.filter((file) => compiled.has(inRoot(file)));
}

async function analyseOne(file, commands) {
  const inputs = ['.clang-tidy', ...(await withHeaders(file))];
  await unlessFresh(`tidy/${file.replaceAll('/', '-')}`, { inputs, outputs: [] }, () =>
    run(`clang-tidy ${file}`, 'clang-tidy', ['--quiet', '-p', commands, file]),
  );
}

/** Returns the file and all of our headers that it includes, directly or indirectly, sorted. */
async function withHeaders(file, seen = new Set()) {
  seen.add(file);
  const text = await readFile(inRoot(file), 'utf8');
  for (const [, name] of text.matchAll(/^\s*#\s*include\s+"([^"]+)"/gm)) {
    const places = [posix.join(posix.dirname(file), name), posix.join('native', name)];
    const header = places.find((place) => existsSync(inRoot(place)));
    if (header !== undefined && !seen.has(header)) await withHeaders(header, seen);
  }
  return [...seen].sort();
}
