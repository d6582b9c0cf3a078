/** The engine's own tests: CMake and ctest, no Node. */
import { availableParallelism } from 'node:os';
import { llama, nativeInputs } from './addon.js';
import { run, StepError } from './run.js';
import { isInstalled, requireTools } from './tools.js';
import { unlessFresh } from './unless-fresh.js';

/** Each in a build folder of its own. */
export const NATIVE_TESTS = {
  plain: { folder: 'build/native-test', definitions: [], ctest: [] },
  address: { folder: 'build/native-asan', definitions: ['-DSVC_SANITIZE=address'], ctest: [] },
  // The prebuilt libllama is not instrumented: threads are watched where a fake model stands in for it.
  thread: { folder: 'build/native-tsan', definitions: ['-DSVC_SANITIZE=thread'], ctest: ['-L', 'fake'] },
};

export async function buildNativeTests(kind) {
  const { folder, definitions } = NATIVE_TESTS[kind];
  const { inputs, facts } = await nativeInputs();
  const native = { inputs: [...inputs, 'native/test'], facts, outputs: [`${folder}/CTestTestfile.cmake`] };
  await unlessFresh(folder.replace('/', '-'), native, async () => {
    await requireTools();
    const generator = (await isInstalled('ninja')) ? ['-G', 'Ninja'] : [];
    const from = llama === null ? [] : [`-DSVC_LLAMA=${llama}`];
    const title = `building the engine's tests${kind === 'plain' ? '' : ` (${kind} sanitizer)`}`;
    await run(`${title}: configure`, 'cmake', [
      '-S',
      '.',
      '-B',
      folder,
      ...generator,
      '-DSVC_BUILD_TESTS=ON',
      ...definitions,
      ...from,
    ]);
    await run(title, 'cmake', ['--build', folder, '--parallel', String(availableParallelism())]);
  });
}

/** Runs them; `{ passed, failed, output }`. */
export async function runNativeTests(kind) {
  const { folder, ctest } = NATIVE_TESTS[kind];
  const parallel = ['--parallel', String(availableParallelism())];
  const args = [
    '--test-dir',
    folder,
    '--output-on-failure',
    '--no-tests=error',
    '--timeout',
    '300',
    ...parallel,
    ...ctest,
  ];
  const output = await run(`running the engine's tests`, 'ctest', args).catch((error) => {
    if (error instanceof StepError) return error.message;
    throw error;
  });
  const summary = /(\d+) tests? failed out of (\d+)/.exec(output);
  if (summary === null) return { passed: 0, failed: 1, output };
  const failed = Number(summary[1]);
  return { passed: Number(summary[2]) - failed, failed, output };
}
