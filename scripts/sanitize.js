/**
 * Runs the engine's native tests under sanitizers: address and undefined behaviour, then threads.
 *
 *   node scripts/sanitize.js [address|thread]
 *   node scripts/sanitize.js --build-only [address|thread]     build without running
 *   node scripts/sanitize.js --third      one of three parts, chosen by the hash of the commit that is checked out: the
 *                                         tests for threads, or half of those for addresses. Each sanitizer compiles
 *                                         the whole engine, so two would take twice as long
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
  const part = isThird ? await thirdOfSanitizers() : null;
  const kinds = part !== null ? [part.kind] : asked.length > 0 ? asked : ['address', 'thread'];
  await installPackages();
  await unpackLlamaCpp();
  await makeTestModels();
  const total = { passed: 0, failed: 0 };
  for (const kind of kinds) {
    const names = part === null ? null : await part.names();
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

/** `names`: null: all tests. */
async function thirdOfSanitizers() {
  const { number } = await thirdOfHead();
  if (number === 3) return { kind: 'thread', names: () => null };
  return { kind: 'address', names: async () => partOf(await nativeTestsOf('address'), { number, of: 2 }) };
}
