/**
 * Runs the package for win32-x64 on Linux, under Wine: the engine's own tests, then svc with Node for Windows: commands,
 * the control socket as a named pipe, HTTP and gRPC, and what is left when an engine or the daemon is killed.
 *
 *   node scripts/wine.js              with --page, writes the result into docs/platforms.md
 *
 * Needs Debian's g++-mingw-w64-x86-64-posix, wine and wine64; Node for Windows comes from npm. All files are in a folder
 * that is removed at the end, a Windows of its own among them.
 */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { basename, join } from 'node:path';
import { parseArgs } from 'node:util';
import { makeForTrials } from './steps/for-trials.js';
import { installFor } from './steps/install-for.js';
import { inRoot } from './steps/root.js';
import { writeRun } from './steps/platforms-page.js';
import { main, say, seconds, StepError } from './steps/run.js';
import { isInstalled } from './steps/tools.js';
import { Trials } from './steps/trials.js';
import { onTerminal } from './steps/wine-terminal.js';
import { endWindows, makeWindows, programsWith, waitForProgram, windowsPath } from './steps/wine.js';

const PLATFORM = 'win32-x64';
const SLOW_MODEL = inRoot('build', 'models', 'tiny-llama.gguf');
/** For an engine to end after its daemon, and the daemon after `svc stop`. */
const END_MS = 20_000;
/** Tests of the engine: files, threads, grammars, kernels in ggml's modules, and whole answers of models. */
const TESTS = [
  'private_file_test',
  'text_stream_test',
  'grammar_test',
  'prefix_cache_test',
  'prefix_file_test',
  'prefix_tiers_test',
  'runner_test',
  'worker_test',
  'storm_test',
  'attention_test',
  'attention_op_test',
  'matrix_ops_test',
  'half_matrix_test',
  'cpu_threads_test',
  'cpu_kernels_test',
  'sampler_test',
  'llama_decoder_test',
  'text_engine_test',
];

await main(async () => {
  const { values } = parseArgs({ options: { page: { type: 'boolean' } } });
  if (!(await isInstalled('wine'))) throw new StepError('wine is not installed');
  const { bin, tarballs, node } = await makeForTrials(PLATFORM, TESTS);
  // It imports what has just been installed.
  const { makeExecutables } = await import('./steps/executable.js');
  const { executable } = await makeExecutables(PLATFORM);
  const startedAt = performance.now();
  const home = await mkdtemp(join(tmpdir(), 'svc-wine-'));
  const windows = await makeWindows(home);
  const addresses = { SVC_HTTP_ADDR: '127.0.0.1:0', SVC_GRPC_ADDR: '127.0.0.1:0' };
  const env = { ...windows, ...addresses, SVC_HOME: 'C:\\svc' };
  const trials = new Trials(home, env);
  try {
    for (const name of TESTS) await trials.run(name, ['wine', join(bin, `${name}.exe`)]);
    const program = join(await installFor(PLATFORM, home, tarballs), 'bin', 'svc.cjs');
    await trySvc(trials, basename(home), ['wine', node, windowsPath(program)]);
    await tryCtrlC(trials, { env, cwd: home }, ['wine', node, windowsPath(program)]);
    await tryExecutable(trials, executable);
    const total = seconds(startedAt);
    say(`${trials.results.length} programs under Wine in ${total} s`);
    if (values.page && trials.failed === 0) await writeRun(PLATFORM, trials.results, total);
    trials.report();
  } finally {
    await endWindows(windows);
    await rm(home, { recursive: true, force: true });
  }
});

/** Tries the commands. `mark`: what the command lines of these programs contain. */
async function trySvc(trials, mark, command) {
  const svc = async (words, expected, code) =>
    await trials.run(`svc ${words.join(' ')}`, [...command, ...words], { expected, code });
  const engine = [mark, 'engine'];
  const daemon = [mark, 'serve'];

  await svc(['version'], /built for: +win32-x64/);
  await svc(['doctor', '--offline'], /default_model +builtin/);
  await svc(['run', '--seed', '1', 'What is svc?'], /svc/);
  await svc(['status'], /READY/);
  await svc(['health', '--source', 'grpc'], /SERVING|READY/);
  await svc(['ps'], /builtin/);
  await svc(['logs', '--tail', '3'], /./);
  const status = JSON.parse(await svc(['status', '--json'], /"READY"/));
  await trials.check('an answer over HTTP', async () => await chat(status.http));

  await trials.check('a killed engine', async () => await killAll(engine));
  await svc(['run', '--seed', '1', 'What is svc?'], /svc/);
  await trials.check('an engine ends with its killed daemon', async () => {
    await killAll(daemon);
    return { text: '', problem: await waitForProgram(engine, false, END_MS) };
  });
  await svc(['status'], /STOPPED/, 3);
  await svc(['start'], /./);
  await svc(['stop'], /./);
  await tryService(trials, mark, svc);
  await trials.check('nothing runs after svc stop', async () => {
    return { text: '', problem: await waitForProgram([mark, 'svc.cjs'], false, END_MS) };
  });
}

/** The service: Wine has no Task Scheduler that starts anything, so its batch file is started by hand. */
async function tryService(trials, mark, svc) {
  const { files } = JSON.parse(await svc(['service', 'install', '--json'], /serve\.cmd/));
  const script = files.find((path) => path.endsWith('.cmd'));
  const ended = trials.run('the batch file of the service', ['wine', 'cmd', '/d', '/c', script]);
  await trials.check('the batch file starts the daemon', async () => {
    return { text: '', problem: await waitForProgram([mark, 'serve', 'service'], true, END_MS) };
  });
  // Waits until it is ready.
  await svc(['start'], /./);
  await svc(['status'], /READY[^]*\(service\)/);
  await svc(['stop'], /./);
  // It starts the daemon again after a crash only.
  await ended;
  await svc(['service', 'uninstall'], /removed/);
}

/** With a model whose answers take long. */
async function tryCtrlC(trials, place, command) {
  const model = ['-m', 'slow', '--max-tokens', '8000'];
  const words = /(\S+\s+){12}/;
  const press = async (name, args, steps, expected, code) =>
    await trials.check(name, async () => {
      const { code: ended, text } = await onTerminal([...command, ...args], place, steps);
      return { text, problem: ended !== code ? `exit ${ended}` : expected.test(text) ? null : 'unexpected output' };
    });
  await press('Ctrl-C ends svc serve', ['serve'], [[/to=READY/, 'Ctrl-C']], /reason=SIGINT/, 0);
  await trials.run('svc model add', [...command, 'model', 'add', windowsPath(SLOW_MODEL), '--name', 'slow']);
  await trials.run('svc start', [...command, 'start']);
  await press('Ctrl-C cancels svc run', ['run', ...model, 'Hello'], [[words, 'Ctrl-C']], /svc: cancelled/, 130);
  const chat = [
    [/>>>/, 'Hello'],
    [words, 'Ctrl-C'],
    [/>>>/, '/exit'],
  ];
  await press('Ctrl-C stops an answer of svc chat, and not the chat', ['chat', ...model], chat, /\/exit/, 0);
  await trials.run('the daemon has stayed', [...command, 'status'], { expected: /READY/ });
  await trials.run('svc stop', [...command, 'stop']);
}

async function tryExecutable(trials, executable) {
  const svc = ['wine', executable];
  await trials.run('svc.exe version', [...svc, 'version'], { expected: /built for: +win32-x64/ });
  await trials.run('svc.exe run', [...svc, 'run', '--seed', '1', 'What is svc?'], { expected: /svc/ });
  await trials.run('svc.exe stop', [...svc, 'stop']);
}

async function killAll(words) {
  const pids = await programsWith(...words);
  for (const pid of pids) process.kill(pid, 'SIGKILL');
  return { text: '', problem: pids.length === 0 ? `${words.join(' ')} does not run` : null };
}

async function chat(address) {
  const response = await fetch(`http://${address}/v1/chat/completions`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ model: 'builtin', messages: [{ role: 'user', content: 'What is svc?' }] }),
  });
  const text = await response.text();
  const content = response.ok ? JSON.parse(text).choices[0].message.content : '';
  return { text, problem: content.includes('svc') ? null : `HTTP ${response.status}` };
}
