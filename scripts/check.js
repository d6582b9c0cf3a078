/**
 * Every fast gate: types, lint, format, C++ format and analysis, architecture.
 *
 *   npm run check
 *
 * A gate whose tool this machine lacks says so and is left out. The last line is
 * `N passed, N failed` (and how many were skipped).
 */
import { existsSync } from 'node:fs';
import { readdir } from 'node:fs/promises';
import { availableParallelism } from 'node:os';
import { addonFolder } from './steps/addon.js';
import { installPackages } from './steps/packages.js';
import { inRoot } from './steps/root.js';
import { main, run, say, StepError } from './steps/run.js';
import { isInstalled } from './steps/tools.js';
import { unlessFresh } from './steps/unless-fresh.js';

/** Thrown by a gate that can't be tried here. */
class Skipped extends Error {}

const node = (title, ...args) => run(title, process.execPath, args);

const GATES = {
  types: () => node('types', 'node_modules/typescript/bin/tsc', '-p', '.'),
  lint: () => node('lint', 'node_modules/eslint/bin/eslint.js', '.'),
  format: () => node('format', 'node_modules/prettier/bin/prettier.cjs', '--check', '--log-level', 'warn', '.'),
  'c++ format': async () => {
    await requireTool('clang-format');
    await run('c++ format', 'clang-format', ['--dry-run', '-Werror', ...(await nativeFiles(['.cc', '.h']))]);
  },
  'c++ analysis': analyseNative,
  architecture: async () => {
    for (const name of await readdir(inRoot('test', 'architecture'))) {
      if (name.endsWith('.test.ts'))
        await node(`architecture: ${name}`, '--import', 'tsx', `test/architecture/${name}`);
    }
  },
};

await main(async () => {
  await installPackages();
  const waiting = Object.entries(GATES);
  const count = { passed: 0, failed: 0, skipped: 0 };
  const worker = async () => {
    for (let next = waiting.shift(); next !== undefined; next = waiting.shift()) count[await outcome(...next)]++;
  };
  await Promise.all([worker(), worker()]);
  const skipped = count.skipped > 0 ? `, ${count.skipped} skipped` : '';
  process.stdout.write(`${count.passed} passed, ${count.failed} failed${skipped}\n`);
  if (count.failed > 0) process.exitCode = 1;
});

async function outcome(name, gate) {
  try {
    await gate();
    return 'passed';
  } catch (error) {
    if (error instanceof Skipped) {
      say(`${name}: skipped: ${error.message}`);
      return 'skipped';
    }
    if (!(error instanceof StepError)) throw error;
    process.stdout.write(`${error.message}\n`);
    return 'failed';
  }
}

/** clang-tidy takes seconds a file: only those that it has not passed as they are. */
async function analyseNative() {
  await requireTool('clang-tidy');
  if (!existsSync(inRoot(addonFolder, 'compile_commands.json'))) {
    throw new Skipped('run `npm run build` once, it writes down the compile commands');
  }
  const headers = [...(await nativeFiles(['.h'])), '.clang-tidy'];
  const waiting = await nativeFiles(['.cc']);
  const failures = [];
  const worker = async () => {
    for (let file = waiting.shift(); file !== undefined; file = waiting.shift()) {
      const analyse = () => run(`clang-tidy ${file}`, 'clang-tidy', ['--quiet', '-p', addonFolder, file]);
      const stamp = `tidy/${file.replaceAll('/', '-')}`;
      await unlessFresh(stamp, { inputs: [file, ...headers], outputs: [] }, analyse).catch((error) =>
        failures.push(error),
      );
    }
  };
  await Promise.all(Array.from({ length: availableParallelism() }, worker));
  if (failures.length > 0) throw new StepError(failures.map(({ message }) => message).join('\n'));
}

async function requireTool(program) {
  if (!(await isInstalled(program))) throw new Skipped(`${program} is not installed`);
}

async function nativeFiles(endings) {
  const names = await readdir(inRoot('native'), { recursive: true });
  return names
    .filter((name) => endings.some((ending) => name.endsWith(ending)))
    .map((name) => `native/${name}`)
    .sort();
}
