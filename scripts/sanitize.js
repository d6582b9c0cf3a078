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
import { parseArgs } from 'node:util';
import { unpackLlamaCpp } from './steps/llama-cpp.js';
import { makeTestModels } from './steps/models.js';
import { buildNativeTests, nativeTestsOf, runNativeTests } from './steps/native-tests.js';
import { installPackages } from './steps/packages.js';
import { partOf, thirdOfHead } from './steps/part.js';
import { main, StepError } from './steps/run.js';

const KINDS = ['address', 'thread'];

await main(async () => {
  const { values: options, positionals } = parseArgs({
    options: { 'build-only': { type: 'boolean' }, third: { type: 'boolean' } },
    allowPositionals: true,
  });
  const unknown = positionals.find((kind) => !KINDS.includes(kind));
  if (unknown !== undefined) throw new StepError(`no sanitizer ${unknown}: there are ${KINDS.join(' and ')}`);
  const part = options.third ? await thirdOfSanitizers() : null;
  const kinds = part !== null ? [part.kind] : positionals.length > 0 ? positionals : KINDS;
  await installPackages();
  await unpackLlamaCpp();
  await makeTestModels();
  const total = { passed: 0, failed: 0 };
  for (const kind of kinds) {
    const names = part === null ? null : await part.names();
    await buildNativeTests(kind, names);
    if (options['build-only']) continue;
    const { passed, failed, output } = await runNativeTests(kind, names);
    if (failed > 0) process.stdout.write(`${output}\n`);
    total.passed += passed;
    total.failed += failed;
  }
  if (options['build-only']) return;
  process.stdout.write(`${total.passed} passed, ${total.failed} failed\n`);
  if (total.failed > 0) process.exitCode = 1;
});

/** `names`: null: all tests. */
async function thirdOfSanitizers() {
  const { number } = await thirdOfHead();
  if (number === 3) return { kind: 'thread', names: () => null };
  return { kind: 'address', names: async () => partOf(await nativeTestsOf('address'), { number, of: 2 }) };
}
