/**
 * Runs one test file in its own process. uvu alone exits with 0 for a file that forgets to run its tests, hangs on an
 * open handle, and does not notice processes or files that a test leaves behind.
 */
import { spawn } from 'node:child_process';
import { mkdir, readdir, symlink } from 'node:fs/promises';
import { tmpdir, userInfo } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { addonVariables } from './addon.js';
import { failedTests } from './failures.js';
import { killQuietly, processesWith } from './processes.js';
import { root } from './root.js';

/** On two idle cores every file takes less than a minute; on one busy core some take several. */
const TIMEOUT_MS = 900_000;
/** Time for a file to exit after its last test. A server that a failed test did not close would keep it running. */
const END_MS = 60_000;
/** Time for the output of a file to end after it: a process that it left behind may hold it open. */
const OUTPUT_MS = 2_000;
/**
 * Time for the last processes of a file to exit after its end. An engine that was just started when its daemon was
 * killed ends only once it has its program, which takes long on a busy machine.
 */
const GRACE_MS = 30_000;
/** Compiled code of npm, which it keeps there on Node 22 and later. */
const NPM_CACHE = 'node-compile-cache';
/** The last line of uvu's summary. */
const SUMMARY = /^ *Duration: /m;
const STARVED = new URL('starved.js', import.meta.url).href;
/** Environment variable that a test and all its descendants inherit, by which leftover processes are found. */
const MARK = 'SVC_TEST_FILE_RUN';

/**
 * Runs `file` with `scratch`, an absent folder, as its temporary directory: its `program` (test-programs.js), or the
 * file itself through the loader; by `node`, another build of Node or this one. `starved`: its thread is stopped again
 * and again (starved.js). It is killed if it has not ended `endMs` after its last test.
 * Resolves with `{ file, passed, failed, skipped, ms, problems, failures, output }`; `problems` are sentences,
 * `failures` the names of the failed tests and then the problems.
 */
export async function runTestFile(
  file,
  scratch,
  { program, node = process.execPath, starved = false, endMs = END_MS } = {},
) {
  const startedAt = performance.now();
  await mkdir(scratch, { recursive: true });
  await shareTranspilerCache(scratch);
  const problems = [];
  const command = program === undefined ? ['--import', 'tsx', file] : ['--enable-source-maps', program];
  const preloaded = starved ? ['--import', STARVED] : [];
  const { code, output, timeout } = await runToEnd([node, ...preloaded, ...command], scratch, endMs);
  const isTimeout = timeout !== null;
  if (isTimeout) problems.push(timeout);

  const counts = parseTotals(output);
  if (counts.total === 0 && !isTimeout) problems.push('ran no test: does it end with test.run()?');
  const survivors = await survivorsOf(scratch);
  if (survivors.length > 0 && !isTimeout) problems.push(`left processes behind: ${survivors.join('; ')}`);
  const leftovers = (await readdir(scratch)).filter((name) => !name.startsWith('tsx-') && name !== NPM_CACHE);
  if (leftovers.length > 0 && !isTimeout) problems.push(`left files behind: ${leftovers.join(', ')}`);

  const failedCount = counts.total - counts.passed;
  if (code !== 0 && failedCount === 0 && problems.length === 0) problems.push(`exit ${code} although no test failed`);
  const names = failedTests(output);
  // If a hook throws, uvu swallows the error and runs no further tests.
  const unnamed = failedCount - names.length;
  if (unnamed > 0) names.push(`${unnamed} without a name: a hook of their suite failed`);
  const failed = problems.length > 0 ? failedCount + 1 : failedCount;
  const { passed, skipped } = counts;
  const failures = [...names, ...problems];
  return { file, passed, failed, skipped, ms: performance.now() - startedAt, problems, failures, output };
}

async function runToEnd([node, ...args], scratch, endMs) {
  const env = { ...process.env, TMPDIR: scratch, [MARK]: scratch, ...addonVariables };
  // No test connects to another machine, and some versions of Node read these certificates at every start.
  delete env.NODE_EXTRA_CA_CERTS;
  const chunks = [];
  let timeout = null;
  const child = spawn(node, args, { cwd: root, env, stdio: ['ignore', 'pipe', 'pipe'] });
  const end = (reason) => {
    timeout = reason;
    child.kill('SIGKILL');
  };
  const timer = setTimeout(() => end(`did not end within ${TIMEOUT_MS / 1000} s`), TIMEOUT_MS);
  let lastTimer;
  child.stdout.on('data', (chunk) => {
    chunks.push(chunk);
    if (!SUMMARY.test(chunk.toString())) return;
    clearTimeout(lastTimer);
    lastTimer = setTimeout(() => end(`did not end within ${endMs / 1000} s of its last test`), endMs);
  });
  child.stderr.on('data', (chunk) => chunks.push(chunk));
  // Not 'close', which waits for every process that still holds the pipes.
  const code = await new Promise((resolve) => child.once('exit', (code, signal) => resolve(code ?? signal)));
  clearTimeout(timer);
  clearTimeout(lastTimer);
  await Promise.race([Promise.all([ended(child.stdout), ended(child.stderr)]), sleep(OUTPUT_MS)]);
  child.stdout.destroy();
  child.stderr.destroy();
  return { code, output: Buffer.concat(chunks).toString(), timeout };
}

const ended = (stream) => new Promise((resolve) => (stream.readableEnded ? resolve() : stream.once('end', resolve)));

/** Adds up the summaries, because a file may have several suites. */
function parseTotals(output) {
  const sum = (label) =>
    [...output.matchAll(new RegExp(`^ *${label}: +(\\d+)`, 'gm'))].reduce((total, [, n]) => total + Number(n), 0);
  return { total: sum('Total'), passed: sum('Passed'), skipped: sum('Skipped') };
}

/** Kills processes that still have our mark and returns their commands. */
async function survivorsOf(scratch) {
  const deadline = performance.now() + GRACE_MS;
  for (;;) {
    const alive = await processesWith(MARK, scratch);
    if (alive.length === 0) return [];
    if (performance.now() > deadline) {
      for (const { pid } of alive) killQuietly(pid);
      return alive.map(({ command }) => command);
    }
    await sleep(50);
  }
}

/** Shares tsx's compile cache, which is in the temporary directory, between all files. */
async function shareTranspilerCache(scratch) {
  if (process.platform === 'win32') return;
  const name = `tsx-${userInfo().uid}`;
  const shared = join(tmpdir(), name);
  await mkdir(shared, { recursive: true });
  await symlink(shared, join(scratch, name));
}
