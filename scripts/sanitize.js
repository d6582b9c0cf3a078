/**
 * Runs the engine's native tests under sanitizers: address and undefined behaviour, then threads.
 *
 *   node scripts/sanitize.js [address|thread]
 *   node scripts/sanitize.js --build-only [address|thread]     build without running
 *   node scripts/sanitize.js --third      of the tests for addresses only a third, chosen by the hash of the commit
 *                                         that is checked out; most of their time is that of models
 *
 * The last line is `N passed, N failed`.
 */
import { unpackLlamaCpp } from './steps/llama-cpp.js';
import { makeTestModels } from './steps/models.js';
import { buildNativeTests, nativeTestsOf, runNativeTests } from './steps/native-tests.js';
import { installPackages } from './steps/packages.js';
import { partOf, thirdOfHead } from './steps/part.js';
import { main } from './steps/run.js';

await main(async () => {
  const isBuildOnly = process.argv.includes('--build-only');
  const isThird = process.argv.includes('--third');
  const asked = process.argv.slice(2).filter((argument) => !argument.startsWith('--'));
  const kinds = asked.length > 0 ? asked : ['address', 'thread'];
  await installPackages();
  await unpackLlamaCpp();
  await makeTestModels();
  const total = { passed: 0, failed: 0 };
  for (const kind of kinds) {
    const names = isThird && kind === 'address' ? await thirdOfTests() : null;
    await buildNativeTests(kind, names);
    if (isBuildOnly) continue;
    const { passed, failed, output } = await runNativeTests(kind, names);
    if (failed > 0) process.stdout.write(`${output}\n`);
    total.passed += passed;
    total.failed += failed;
  }
  if (isBuildOnly) return;
  process.stdout.write(`${total.passed} passed, ${total.failed} failed\n`);
  if (total.failed > 0) process.exitCode = 1;
});

async function thirdOfTests() {
  return partOf(await nativeTestsOf('address'), await thirdOfHead());
}
