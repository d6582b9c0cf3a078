/**
 * Runs the test of the installed packages (test/packed) with each version of Node that svc supports.
 *
 *   node scripts/nodes.js [VERSION …]     with --page, writes the result into docs/platforms.md
 *
 * The versions of Node come from npm, if npm/nodes.json has their digests. The last line is `N passed, N failed`.
 */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { build } from './steps/build.js';
import { nodeFromNpm } from './steps/node-from-npm.js';
import { writeNodes } from './steps/platforms-page.js';
import { host } from './steps/platforms.js';
import { main, say, StepError } from './steps/run.js';
import { runTestFile } from './steps/test-file.js';

const PLATFORM = 'linux-x64';
const TEST = 'test/packed/packed.test.ts';
/** The oldest that package.json allows, and the newest of each line since. */
const VERSIONS = ['20.18.1', '22.23.3', '24.9.0', '26.9.0'];

await main(async () => {
  if (host !== PLATFORM) throw new StepError(`these builds of Node are for ${PLATFORM}`);
  const { values, positionals: asked } = parseArgs({ options: { page: { type: 'boolean' } }, allowPositionals: true });
  await build();
  const scratch = await mkdtemp(join(tmpdir(), 'svc-n-'));
  const results = [];
  try {
    for (const version of asked.length > 0 ? asked : VERSIONS) {
      const node = await nodeFromNpm(PLATFORM, version);
      const { passed, failed, ms, output, failures } = await runTestFile(TEST, join(scratch, version), { node });
      say(`Node ${version}: ${passed} passed, ${failed} failed, ${(ms / 1000).toFixed(0)} s`);
      if (failed > 0) process.stdout.write(`${output}\n${failures.map((each) => `${each}\n`).join('')}`);
      results.push({ version, passed, failed });
    }
  } finally {
    await rm(scratch, { recursive: true, force: true });
  }
  const sum = (key) => results.reduce((total, result) => total + result[key], 0);
  if (values.page && sum('failed') === 0) await writeNodes(results);
  process.stdout.write(`${sum('passed')} passed, ${sum('failed')} failed\n`);
  if (sum('failed') > 0 || sum('passed') === 0) process.exitCode = 1;
});
