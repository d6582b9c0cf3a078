/**
 * Runs the package for linux-arm64 on a Linux machine of another processor, under qemu-user: some of the engine's own
 * tests, then `svc version`, `svc doctor`, `svc run` and `svc stop` with Node for arm64.
 *
 *   node scripts/qemu.js              with --page, writes the result into docs/platforms.md; with --if-possible, does
 *                                     nothing where the machine or its kernel does not allow it
 *
 * Needs Debian's g++-aarch64-linux-gnu and qemu-user-static; Node for arm64 comes from npm. Nothing on the machine is
 * changed: qemu is registered with the kernel (binfmt_misc), and the libraries for arm64 are mounted, in namespaces
 * that end with this program. So no root is needed, but Linux ≥ 6.7 and user namespaces.
 */
import { execFile } from 'node:child_process';
import { existsSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseArgs, promisify } from 'node:util';
import { makeForTrials } from './steps/for-trials.js';
import { installFor } from './steps/install-for.js';
import { writeRun } from './steps/platforms-page.js';
import { inRoot } from './steps/root.js';
import { main, say, seconds, StepError } from './steps/run.js';
import { isInstalled } from './steps/tools.js';
import { Trials } from './steps/trials.js';

const PLATFORM = 'linux-arm64';
const QEMU = '/usr/bin/qemu-aarch64-static';
const SYSROOT = '/usr/aarch64-linux-gnu';
const ENTER = inRoot('scripts/steps/enter-arm64.sh');
const NAMESPACES = '--user --map-root-user --mount --pid --fork --mount-proc --kill-child'.split(' ');
/**
 * A short set of the engine's tests: text, grammars, files, threads, the list of refused calls, and kernels; `svc run`
 * computes with libllama.
 * Without every_thread_test: it fails under qemu, perhaps because of a thread of qemu itself. Without those that load
 * vocabularies or models (tokenizer_test, sampler_test, text_engine_test): they take minutes each.
 */
const TESTS = [
  'text_stream_test',
  'grammar_test',
  'prefix_cache_test',
  'prefix_file_test',
  'scheduler_test',
  'runner_test',
  'worker_test',
  'seccomp_filter_test',
  'attention_test',
  'attention_op_test',
  'kernel_times_test',
];
/** Those of kernels that work on each of these processors: ggml has a module for each, with other instructions. */
const KERNEL_TESTS = ['cpu_kernels_test', 'kernel_samples_test'];
const PROCESSORS = ['cortex-a53', 'neoverse-n1', 'max'];

await main(async () => {
  const { values } = parseArgs({ options: { page: { type: 'boolean' }, 'if-possible': { type: 'boolean' } } });
  const obstacle = await obstacleToQemu();
  if (obstacle !== null && values['if-possible']) {
    process.stdout.write(`skipped: ${obstacle}\n0 passed, 0 failed\n`);
    return;
  }
  if (obstacle !== null) throw new StepError(obstacle);
  const { bin, tarballs, node } = await makeForTrials(PLATFORM, [...TESTS, ...KERNEL_TESTS]);
  const startedAt = performance.now();
  const home = await mkdtemp(join(tmpdir(), 'svc-qemu-'));
  const trials = new Trials(home, {
    ...process.env,
    ...{ QEMU, SYSROOT, HOME: home, SVC_HOME: join(home, 'svc') },
    ...{ SVC_HTTP_ADDR: '127.0.0.1:0', SVC_GRPC_ADDR: '127.0.0.1:0' },
  });
  /** Runs a program for arm64 to its end. */
  const trial = async (name, command, { expected, processor = 'max' } = {}) => {
    const scratch = await mkdtemp(join(home, 'scratch-'));
    const env = { SCRATCH: scratch, QEMU_CPU: processor };
    await trials.run(name, ['unshare', ...NAMESPACES, 'sh', ENTER, ...command], { expected, env });
  };
  try {
    for (const name of TESTS) await trial(name, [join(bin, name)]);
    for (const processor of PROCESSORS) {
      for (const name of KERNEL_TESTS) await trial(`${name} on ${processor}`, [join(bin, name)], { processor });
    }
    const svc = [node, join(await installFor(PLATFORM, home, tarballs), 'bin', 'svc.cjs')];
    await trial('svc version', [...svc, 'version'], { expected: /built for: +linux-arm64/ });
    await trial('svc doctor', [...svc, 'doctor', '--offline'], { expected: /default_model +builtin/ });
    // In one call: the daemon ends with its namespace.
    const commands = ['run --seed 1 "What is svc?"', 'status', 'stop'].map((command) => `"$0" "$1" ${command}`);
    await trial('svc run, svc status, svc stop', ['sh', '-c', commands.join(' && '), ...svc], { expected: /READY/ });
    const total = seconds(startedAt);
    say(`${trials.results.length} programs under qemu in ${total} s`);
    if (values.page && trials.failed === 0) await writeRun(PLATFORM, trials.results, total);
    trials.report();
  } finally {
    await rm(home, { recursive: true, force: true });
  }
});

/** Returns why programs for arm64 cannot run here, otherwise null. */
async function obstacleToQemu() {
  const installed = await Promise.all(['unshare', 'aarch64-linux-gnu-g++'].map(isInstalled));
  if (!existsSync(QEMU) || installed.includes(false))
    return 'qemu-user-static or g++-aarch64-linux-gnu is not installed';
  const scratch = await mkdtemp(join(tmpdir(), 'svc-qemu-'));
  const env = { ...process.env, QEMU, SYSROOT, SCRATCH: scratch };
  try {
    await promisify(execFile)('unshare', [...NAMESPACES, 'sh', ENTER, 'true'], { env });
    return null;
  } catch (error) {
    return `the kernel does not allow it: ${String(error.stderr).trim()}`;
  } finally {
    await rm(scratch, { recursive: true, force: true });
  }
}
