/**
 * Runs all tests; works from a fresh clone.
 *
 *   npm test                            everything
 *   npm test -- engine/frames cli/      only test files whose path contains one of these
 *   npm test -- --starved cli/          the same with tests that hardly get the processor: finds those that need luck
 *
 * First the engine's native tests (CMake and ctest), then every test/**\/*.test.ts, bundled, in its own process, six at
 * a time, the longest first. A file also fails if it runs no test, takes too long, or leaves a process or file behind.
 * The output ends with the names of failed tests; the last line is `N passed, N failed`.
 */
import { mkdtemp, readdir, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join, relative } from 'node:path';
import { build } from './steps/build.js';
import { llama } from './steps/addon.js';
import { describeFailures } from './steps/failures.js';
import { buildNativeTests, runNativeTests } from './steps/native-tests.js';
import { installTestPackages } from './steps/packages.js';
import { inRoot, root } from './steps/root.js';
import { main, say } from './steps/run.js';
import { runTestFile } from './steps/test-file.js';
import { bundleTests } from './steps/test-programs.js';

/** Test files at a time. On two cores they spend half of their time waiting for processes. */
const AT_A_TIME = 6;
/** Longest test files; they start first, so that none still runs alone at the end. */
const LONGEST = [
  'test/fuzz/doors',
  'test/cli/doctor',
  'test/cli/two-gpus',
  'test/backends/faults',
  'test/daemon/life',
  'test/daemon/model-names',
  'test/daemon/abuse',
  'test/daemon/file-troubles',
  'test/backends/engine-process',
  'test/cli/bad-homes',
  'test/cli/provider',
  'test/backends/residency',
  'test/log/canary',
  'test/log/client-text',
  'test/daemon/lora',
  'test/daemon/capabilities',
  'test/cli/daemon',
  'test/models/pull/faults',
  'test/cli/run-stdin',
  'test/packed/',
  'test/engine/gpu',
  'test/gpu/install',
  'test/native/teardown',
  'test/architecture/regular-expressions',
];
const SLOWEST_SHOWN = 5;
const STARVED = '--starved';

await main(async () => {
  const starved = process.argv.includes(STARVED);
  const patterns = process.argv.slice(2).filter((argument) => argument !== STARVED);
  const files = (await testFiles())
    .filter((file) => canRun(file) && (patterns.length === 0 || patterns.some((pattern) => file.includes(pattern))))
    .sort((a, b) => rank(a) - rank(b));
  if (patterns.length > 0 && files.length === 0) say(`no test file's path holds ${patterns.join(' or ')}`);

  await build({ testModels: true });
  await installTestPackages(files);
  const results = [];
  if (patterns.length === 0) {
    await buildNativeTests('plain');
    const native = await runNativeTests('plain');
    if (native.failed > 0) process.stdout.write(`${native.output}\n`);
    results.push(native);
  }
  results.push(...(await runTestFiles(files, starved)));

  const sum = (key) => results.reduce((total, result) => total + (result[key] ?? 0), 0);
  const failed = sum('failed');
  if (sum('skipped') > 0) process.stdout.write(`${sum('skipped')} skipped\n`);
  for (const line of describeFailures(results)) process.stdout.write(`${line}\n`);
  process.stdout.write(`${sum('passed')} passed, ${failed} failed\n`);
  if (failed > 0 || sum('passed') === 0) process.exitCode = 1;
});

/** A libllama built from source is for this CPU only, so there is no package to install and test. */
function canRun(file) {
  return llama !== 'source' || !file.includes('test/packed/');
}

function rank(file) {
  const place = LONGEST.findIndex((start) => file.startsWith(start));
  return place === -1 ? LONGEST.length : place;
}

async function runTestFiles(files, starved) {
  const scratch = await mkdtemp(join(tmpdir(), 'svc-t-'));
  const bundles = await mkdtemp(inRoot('build', 'tests-'));
  let results;
  try {
    const programs = await bundleTests(files, bundles);
    results = await runEach(files, (file, index) =>
      runTestFile(file, join(scratch, String(index)), { program: programs.get(file), starved }),
    );
  } finally {
    for (const folder of [scratch, bundles]) await rm(folder, { recursive: true, force: true });
  }

  const slowest = [...results].sort((a, b) => b.ms - a.ms).slice(0, SLOWEST_SHOWN);
  process.stdout.write(`slowest: ${slowest.map(({ file, ms }) => `${file} ${(ms / 1000).toFixed(1)} s`).join(', ')}\n`);
  return results;
}

async function runEach(files, runFile) {
  const waiting = [...files.entries()];
  const results = [];
  // Ctrl-C also reaches the running test files; this program survives to clean up after them.
  process.once('SIGINT', () => (waiting.length = 0));
  const worker = async () => {
    for (let next = waiting.shift(); next !== undefined; next = waiting.shift()) {
      const [index, file] = next;
      const result = await runFile(file, index);
      report(result);
      results.push(result);
    }
  };
  await Promise.all(Array.from({ length: AT_A_TIME }, worker));
  return results;
}

function report({ file, passed, failed, skipped, ms, problems, output }) {
  const counts = `${passed} passed${failed > 0 ? `, ${failed} failed` : ''}${skipped > 0 ? `, ${skipped} skipped` : ''}`;
  process.stdout.write(`${failed > 0 ? 'FAIL' : 'ok  '} ${file} (${counts}, ${(ms / 1000).toFixed(1)} s)\n`);
  if (failed > 0) process.stdout.write(`${output}\n${problems.map((problem) => `${file} ${problem}\n`).join('')}`);
}

async function testFiles(folder = inRoot('test')) {
  const entries = await readdir(folder, { withFileTypes: true });
  const found = entries.map((entry) => {
    const path = join(folder, entry.name);
    if (entry.name === 'node_modules') return [];
    if (entry.isDirectory()) return testFiles(path);
    return entry.name.endsWith('.test.ts') ? [relative(root, path)] : [];
  });
  return (await Promise.all(found)).flat().sort();
}
