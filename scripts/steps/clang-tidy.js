/** Runs clang-tidy, which takes seconds per file, only on files that changed since they passed, headers included. */
import { execFile } from 'node:child_process';
import { existsSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { availableParallelism } from 'node:os';
import { posix, relative } from 'node:path';
import { promisify } from 'node:util';
import { writeCompileCommands } from './addon.js';
import { unpackLlamaCpp } from './llama-cpp.js';
import { lockedPackage } from './packages.js';
import { inRoot, root } from './root.js';
import { run, say, StepError } from './run.js';
import { unlessFresh } from './unless-fresh.js';

/** Throws StepError with the findings in `files`. Files for another platform are named and left out. */
export async function analyse(files) {
  await unpackLlamaCpp();
  const folder = await writeCompileCommands();
  const commands = await commandsByFile(folder);
  const waiting = files.filter((file) => commands.has(file));
  const others = files.filter((file) => !commands.has(file));
  // clang-tidy would guess a command.
  if (others.length > 0) say(`clang-tidy: not analysed, because nothing here compiles them: ${others.join(', ')}`);
  // What a finding depends on besides our files.
  const tools = [await versionOfTool(), await lockedPackage('node-llama-cpp')];
  const failures = [];
  const worker = async () => {
    for (let file = waiting.shift(); file !== undefined; file = waiting.shift()) {
      const facts = [commands.get(file), ...tools];
      await analyseOne(file, folder, facts).catch((error) => failures.push(error));
    }
  };
  await Promise.all(Array.from({ length: availableParallelism() }, worker));
  if (failures.length > 0) throw new StepError(failures.map(({ message }) => message).join('\n'));
}

/** Returns how each file is compiled alone, by its path from the root. */
async function commandsByFile(folder) {
  const entries = JSON.parse(await readFile(inRoot(folder, 'compile_commands.json'), 'utf8'));
  return new Map(entries.map(({ file, command }) => [relative(root, file), command]));
}

async function versionOfTool() {
  return (await promisify(execFile)('clang-tidy', ['--version'])).stdout;
}

async function analyseOne(file, folder, facts) {
  const inputs = ['.clang-tidy', ...(await withHeaders(file))];
  await unlessFresh(`tidy/${file.replaceAll('/', '-')}`, { inputs, facts, outputs: [] }, () =>
    run(`clang-tidy ${file}`, 'clang-tidy', ['--quiet', '-p', folder, file]),
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
