/**
 * Runs all fast checks: types, lint, format, C++ format and analysis, architecture.
 *
 *   npm run check [-- --third]
 *
 * --third  C++ analysis only of a third of the files, chosen by the hash of the commit that is checked out, and of those
 *          that the last commits changed; no architecture, which is among the tests of `npm test`
 *
 * A check whose tool is not installed is skipped with a message. The last line is
 * `N passed, N failed` (and the number skipped).
 */
import { readdir } from 'node:fs/promises';
import { parseArgs } from 'node:util';
import { analyse } from './steps/clang-tidy.js';
import { installPackages } from './steps/packages.js';
import { partOf, thirdOfHead } from './steps/part.js';
import { inRoot } from './steps/root.js';
import { main, run, say, StepError } from './steps/run.js';
import { isInstalled } from './steps/tools.js';

/** Thrown by a check that cannot run on this machine. */
class Skipped extends Error {}

/** Number of commits whose files `--third` analyses whichever third it is. */
const RECENT_COMMITS = 10;

const node = (title, ...args) => run(title, process.execPath, args);

/** Each is called with the options of this program. */
const GATES = {
  types: () => node('types', 'node_modules/typescript/bin/tsc', '-p', '.'),
  'console types': async () => {
    // They run in a browser; no other file may use a browser's global names.
    for (const folder of ['console', 'test/console'])
      await node(`types of ${folder}`, 'node_modules/typescript/bin/tsc', '-p', folder);
  },
  lint: () => node('lint', 'node_modules/eslint/bin/eslint.js', '.'),
  format: () => node('format', 'node_modules/prettier/bin/prettier.cjs', '--check', '--log-level', 'warn', '.'),
  'c++ format': async () => {
    await requireTool('clang-format');
    await run('c++ format', 'clang-format', ['--dry-run', '-Werror', ...(await nativeFiles(['.cc', '.h']))]);
  },
  'c++ analysis': async (options) => {
    await requireTool('clang-tidy');
    // The tests are excluded: they would double the time, and run under sanitizers anyway.
    const files = (await nativeFiles(['.cc'])).filter((name) => !name.startsWith('native/test/'));
    await analyse(options.third ? await third(files) : files);
  },
  architecture: async () => {
    for (const name of await readdir(inRoot('test', 'architecture'))) {
      if (name.endsWith('.test.ts'))
        await node(`architecture: ${name}`, '--import', 'tsx', `test/architecture/${name}`);
    }
  },
};

await main(async () => {
  const { values: options } = parseArgs({ options: { third: { type: 'boolean' } } });
  await installPackages();
  const waiting = Object.entries(GATES).filter(([name]) => !options.third || name !== 'architecture');
  const count = { passed: 0, failed: 0, skipped: 0 };
  const worker = async () => {
    for (let next = waiting.shift(); next !== undefined; next = waiting.shift())
      count[await outcome(...next, options)]++;
  };
  await Promise.all([worker(), worker()]);
  const skipped = count.skipped > 0 ? `, ${count.skipped} skipped` : '';
  process.stdout.write(`${count.passed} passed, ${count.failed} failed${skipped}\n`);
  if (count.failed > 0) process.exitCode = 1;
});

async function outcome(name, gate, options) {
  try {
    await gate(options);
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

/** The third of `files` for this commit, and those of them that the last commits changed. */
async function third(files) {
  const log = await run('changed files', 'git', ['log', `-${RECENT_COMMITS}`, '--format=', '--name-only']);
  const wanted = new Set([...partOf(files, await thirdOfHead()), ...log.split('\n')]);
  return files.filter((file) => wanted.has(file));
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
