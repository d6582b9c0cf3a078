/**
 * Runs the engine's native tests under sanitizers: address and undefined behaviour, then threads.
 *
 *   node scripts/sanitize.js [address|thread]
 *   node scripts/sanitize.js --build-only [address|thread]     build without running
 *   node scripts/sanitize.js [address|thread] --part K/N       every N-th test
 *
 * The last line is `N passed, N failed`.
 */
import { parseArgs } from 'node:util';
import { unpackLlamaCpp } from './steps/llama-cpp.js';
import { makeTestModels } from './steps/models.js';
import { buildNativeTests, nativeTestsOf, runNativeTests } from './steps/native-tests.js';
import { installPackages } from './steps/packages.js';
import { partOf, readPart } from './steps/part.js';
import { main, StepError } from './steps/run.js';

const KINDS = ['address', 'thread'];

await main(async () => {
  const { values: options, positionals } = parseArgs({
    options: { 'build-only': { type: 'boolean' }, part: { type: 'string' } },
    allowPositionals: true,
  });
  const unknown = positionals.find((kind) => !KINDS.includes(kind));
  if (unknown !== undefined) throw new StepError(`no sanitizer ${unknown}: there are ${KINDS.join(' and ')}`);
  const part = options.part === undefined ? null : readPart(options.part);
  const kinds = positionals.length > 0 ? positionals : KINDS;
  await installPackages();
  await unpackLlamaCpp();
  await makeTestModels();
  const total = { passed: 0, failed: 0 };
  for (const kind of kinds) {
    const names = part === null ? null : partOf(await nativeTestsOf(kind), part);
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
