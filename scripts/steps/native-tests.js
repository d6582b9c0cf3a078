/** Builds and runs the engine's native tests with CMake and ctest, without Node. */
import { availableParallelism } from 'node:os';
import { addonFolder, chosenLlama, nativeInputs } from './addon.js';
import { configureFolder } from './cmake.js';
import { failedNativeTests } from './failures.js';
import { inRoot } from './root.js';
import { run, StepError } from './run.js';
import { isInstalled, requireTools } from './tools.js';
import { unlessFresh } from './unless-fresh.js';

/** The plain tests share a build folder with the addon; each sanitizer has its own. */
export const NATIVE_TESTS = {
  plain: { folder: addonFolder, build: [], ctest: [] },
  address: { folder: 'build/native-asan', build: [], ctest: [] },
  // The prebuilt libllama is not instrumented, so the thread sanitizer runs only the tests with a fake model.
  thread: { folder: 'build/native-tsan', build: ['--target', 'svc_fake_tests'], ctest: ['-L', 'fake'] },
};

/** Builds the tests, or only those named. REQUIRES for `plain`: the addon is built. */
export async function buildNativeTests(kind, names = null) {
  const { folder } = NATIVE_TESTS[kind];
  const build = names === null ? NATIVE_TESTS[kind].build : ['--target', ...names];
  const { inputs, facts } = await nativeInputs();
  const native = {
    inputs: [...inputs, 'native/test'],
    facts: [...facts, names],
    outputs: [`${folder}/CTestTestfile.cmake`],
  };
  await unlessFresh(`native-tests-${kind}`, native, async () => {
    const title = `building the engine's tests${kind === 'plain' ? '' : ` (${kind} sanitizer)`}`;
    if (kind !== 'plain') await configure(title, folder, kind);
    await run(title, 'cmake', ['--build', folder, '--parallel', String(availableParallelism()), ...build]);
  });
}

/** Returns the names of all tests that run with a sanitizer, which are those of their CMake targets too. */
export async function nativeTestsOf(kind) {
  const { folder, ctest } = NATIVE_TESTS[kind];
  await configure(`listing the engine's tests (${kind} sanitizer)`, folder, kind);
  const list = await run('tests', 'ctest', ['--test-dir', folder, '--show-only=json-v1', ...ctest]);
  return JSON.parse(list).tests.map(({ name }) => name);
}

/** Builds one test with a sanitizer; returns the path of its program. */
export async function buildNativeTest(kind, name) {
  const { folder } = NATIVE_TESTS[kind];
  const title = `building ${name} (${kind} sanitizer)`;
  await configure(title, folder, kind);
  await run(title, 'cmake', ['--build', folder, '--parallel', String(availableParallelism()), '--target', name]);
  return inRoot(folder, 'bin', name);
}

async function configure(title, folder, sanitizer) {
  await requireTools();
  const generator = (await isInstalled('ninja')) ? ['-G', 'Ninja'] : [];
  const definitions = ['-DSVC_BUILD_TESTS=ON', `-DSVC_SANITIZE=${sanitizer}`, chosenLlama];
  await configureFolder(folder, () =>
    run(`${title}: configure`, 'cmake', ['-S', '.', '-B', folder, ...generator, ...definitions]),
  );
}

/** Runs the tests, or only those named; returns `{ file, passed, failed, failures, output }`, as for a test file. */
export async function runNativeTests(kind, names = null) {
  const { folder } = NATIVE_TESTS[kind];
  const ctest = names === null ? NATIVE_TESTS[kind].ctest : ['-R', `^(${names.join('|')})$`];
  const parallel = ['--parallel', String(availableParallelism())];
  const args = [
    '--test-dir',
    folder,
    '--output-on-failure',
    '--no-tests=error',
    '--timeout',
    '900',
    ...parallel,
    ...ctest,
  ];
  const output = await run(`running the engine's tests`, 'ctest', args).catch((error) => {
    if (error instanceof StepError) return error.message;
    throw error;
  });
  const file = `the engine's tests (ctest in ${folder})`;
  const summary = /(\d+) tests? failed out of (\d+)/.exec(output);
  if (summary === null) return { file, passed: 0, failed: 1, failures: ['ctest gave no summary'], output };
  const failed = Number(summary[1]);
  return { file, passed: Number(summary[2]) - failed, failed, failures: failedNativeTests(output), output };
}
