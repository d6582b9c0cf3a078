/** The local backend with real engines: faults of an engine, and what callers observe. */
import { execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import type { LocalBackend } from '../../src/backends/local/local-backend.ts';
import { FrameDecoder, FROM_ENGINE } from '../../src/engine/frames.ts';
import type { FromEngine } from '../../src/engine/messages.ts';
import { spawnEngine } from '../../src/engine/spawn.ts';
import { SvcError } from '../../src/protocol/errors.ts';
import type { GenerateEvent } from '../../src/protocol/generate.ts';
import { given } from '../../src/protocol/given.ts';
import { BUILT_ENGINE } from '../support/built.ts';
import { firstText } from '../support/first-text.ts';
import { seenOf } from '../support/proc.ts';
import { waitFor } from '../support/wait.ts';
import { collect, context, failure } from './conformance.ts';
import { ask, isAlive, testWith, textOf } from './local-support.ts';
import { makeRealLocal, TINY, type RealLocal } from './real-local.ts';

function it(
  what: string,
  settings: Parameters<typeof makeRealLocal>[0],
  body: (local: RealLocal) => Promise<void>,
): void {
  testWith(what, () => makeRealLocal(settings), body);
}

const short = (backend: LocalBackend, model = 'llama'): Promise<GenerateEvent[]> =>
  collect(backend.generate({ ...ask('Hello', model), max_tokens: 20 }, context()));

/** Starts an endless answer and returns it after its first text. */
async function stream(backend: LocalBackend, model = 'llama') {
  const events = backend.generate(ask('Hello', model), context())[Symbol.asyncIterator]();
  await firstText(events);
  return {
    next: () => events.next(),
    rest: () => collect({ [Symbol.asyncIterator]: () => events }),
  };
}

function pidOf(backend: LocalBackend, model = 'llama'): number {
  const pid = backend.loadedModels().find(({ id }) => id === model)?.pid;
  assert.type(pid, 'number');
  return pid as number;
}

for (const signal of ['SIGKILL', 'SIGABRT', 'SIGSEGV'] as const) {
  it(`${signal} during a stream ends only the stream of that model`, {}, async ({ backend }) => {
    const other = await stream(backend, 'gemma');
    const { rest } = await stream(backend);
    const pid = pidOf(backend);
    process.kill(pid, signal);

    const error = await failure(rest());
    assert.is(error.code, 'ENGINE_CRASHED');
    assert.is(error.message, `the engine of llama was ended by ${signal}`);
    assert.is((await short(backend)).at(-1)?.type, 'finish');
    assert.is.not(pidOf(backend), pid);
    for (let pulls = 0; pulls < 5; pulls++) assert.is((await other.next()).value?.type, 'text');
  });
}

it('a stopped engine is detected and replaced', { stall_timeout_seconds: 2 }, async ({ backend }) => {
  const { rest } = await stream(backend);
  const pid = pidOf(backend);
  process.kill(pid, 'SIGSTOP');
  const error = await failure(rest());
  assert.is(error.code, 'ENGINE_CRASHED');
  assert.match(error.message, /was not heard of for \d+\.\d s$/);
  assert.not(isAlive(pid));
  assert.is((await short(backend)).at(-1)?.type, 'finish');
});

it('an engine that runs out of memory fails only its own requests', {}, async ({ backend }) => {
  if (process.platform !== 'linux') return;
  const other = await stream(backend, 'gemma');
  await short(backend);
  await promisify(execFile)('prlimit', ['--pid', String(pidOf(backend)), '--as=1048576']);
  // The engine may still have enough memory, refuse, or die; if it dies, its replacement has no such limit.
  await collect(backend.generate(ask('word '.repeat(200_000), 'llama'), context())).catch((error: unknown) => {
    assert.instance(error, SvcError);
  });
  await waitFor('an answer', async () => (await short(backend)).at(-1)?.type === 'finish');
  for (let pulls = 0; pulls < 5; pulls++) assert.is((await other.next()).value?.type, 'text');
});

it('eight requests at once for two models are answered', {}, async ({ backend }) => {
  const answers = await Promise.all(
    Array.from({ length: 8 }, (_, index) => short(backend, index % 2 === 0 ? 'llama' : 'gemma')),
  );
  for (const events of answers) {
    const finish = events.at(-1);
    assert.ok(finish?.type === 'finish');
    assert.is(finish.reason, 'length');
    assert.is(finish.usage?.output_tokens, 20);
    assert.ok(textOf(events).length > 0);
  }
  assert.is(backend.pids().length, 2);
});

it('the same seed gives the same text through the whole stack', {}, async ({ backend }) => {
  const request = { ...ask('Hello', 'llama'), max_tokens: 30, sampling: { seed: 42, temperature: 1 } };
  const texts = [];
  for (let run = 0; run < 2; run++) texts.push(textOf(await collect(backend.generate(request, context()))));
  assert.is(texts[0], texts[1]);
});

it('an abort frees the KV-cache cells', {}, async ({ backend }) => {
  const controller = new AbortController();
  const reason = new SvcError('CANCELLED', 'the caller has left');
  const answers = [1, 2, 3].map(() =>
    failure(collect(backend.generate(ask('Hello', 'llama'), context(controller.signal)))),
  );
  await waitFor('three to run', () => backend.loadedModels()[0]?.active === 3);
  controller.abort(reason);
  assert.equal(await Promise.all(answers), [reason, reason, reason]);
  await waitFor('the cells to be free', () => backend.loadedModels()[0]?.kv_cells_used === 0);
});

it(
  'a prompt longer than the context is rejected; the error has both lengths',
  { context_length: 256 },
  async ({ backend }) => {
    const error = await failure(collect(backend.generate(ask('word '.repeat(500), 'llama'), context())));
    assert.is(error.code, 'CONTEXT_OVERFLOW');
    assert.match(error.message, /\b256\b/);
    assert.is((await short(backend)).at(-1)?.type, 'finish');
  },
);

it('a prompt is not visible in the command line, environment or log', {}, async ({ backend, log }) => {
  if (process.platform !== 'linux') return;
  const events = backend.generate(ask('canary-7f3a', 'llama'), context())[Symbol.asyncIterator]();
  await firstText(events);
  const pid = pidOf(backend);
  const [arguments_, environment, score] = ['cmdline', 'environ', 'oom_score_adj'].map((name) => seenOf(pid, name));
  assert.match(arguments_ ?? '', /^svc: engine llama/);
  assert.not.match(`${String(arguments_)}${String(environment)}${JSON.stringify(log)}`, /canary/);
  assert.is(Number(score), 500);
  await events.return();
});

test('a file that is not a model is rejected, and other models keep working', async () => {
  const directory = await mkdtemp(join(tmpdir(), 'svc-bad-'));
  const text = join(directory, 'text.gguf');
  const cut = join(directory, 'cut.gguf');
  await writeFile(text, 'this is a text file\n'.repeat(100));
  await writeFile(cut, (await readFile(TINY.llama)).subarray(0, 100_000));
  const { backend, dispose } = makeRealLocal({}, { ...TINY, text, cut, directory, missing: join(directory, 'none') });
  try {
    for (const model of ['text', 'cut', 'directory', 'missing']) {
      const error = await failure(short(backend, model));
      assert.is(error.code, 'MODEL_INVALID', `${model}: ${error.message}`);
    }
    assert.is((await short(backend)).at(-1)?.type, 'finish');
  } finally {
    await dispose();
    await rm(directory, { recursive: true });
  }
});

test('without the addon every call reports the same reason', async () => {
  process.env['SVC_ADDON'] = '/nowhere/svc.node';
  const { backend, dispose } = makeRealLocal();
  try {
    const error = await failure(short(backend));
    assert.is(error.code, 'ENGINE_UNAVAILABLE');
    assert.match(error.message, new RegExp(`${process.platform}-${process.arch}.*/nowhere/svc.node: not there`));
    assert.ok(error.hint);
    assert.is(backend.engineStatus().status, 'fail');
    assert.is(backend.engineStatus().reason, error.message);
  } finally {
    delete process.env['SVC_ADDON'];
    await dispose();
  }
});

test('from its start on, an engine is the first target of the OOM killer', async () => {
  if (process.platform !== 'linux') return;
  const directory = await mkdtemp(join(tmpdir(), 'svc-e-'));
  try {
    // The process runs none of the engine's code, so the parent alone must set the score.
    const entry = join(directory, 'idle.cjs');
    await writeFile(entry, 'setInterval(() => undefined, 1000)');
    const { pid, stdout, stderr, kill, ended } = await spawnEngine({ entry });
    const score = await readFile(`/proc/${String(pid)}/oom_score_adj`, 'utf8');
    stdout.resume();
    stderr.resume();
    kill();
    await ended;
    assert.ok(Number(score) > Number(await readFile('/proc/self/oom_score_adj', 'utf8')), score);
  } finally {
    await rm(directory, { recursive: true });
  }
});

test('an engine sends heartbeats from its start on, however long its first message takes', async () => {
  const { pipe, stdout, stderr, kill, ended } = await spawnEngine(given({ entry: BUILT_ENGINE }));
  const frames = new FrameDecoder<FromEngine>(FROM_ENGINE);
  let beats = 0;
  pipe.on('error', () => undefined);
  pipe.on('data', (chunk: Buffer) => {
    for (const { type } of frames.decode(chunk)) if (type === 'stats') beats++;
  });
  stdout.resume();
  stderr.resume();
  try {
    await waitFor('two heartbeats', () => beats >= 2);
  } finally {
    kill();
    await ended;
  }
});

for (const stopped of [false, true]) {
  test(`the engine dies with the daemon${stopped ? ', even if it is stopped' : ''}`, async () => {
    if (stopped && process.platform !== 'linux') return;
    const parent = fileURLToPath(new URL('./orphan-parent.ts', import.meta.url));
    const child = spawn(process.execPath, ['--import', 'tsx', parent], { stdio: ['ignore', 'pipe', 'inherit'] });
    const [line] = (await once(child.stdout, 'data')) as [Buffer];
    const pid = Number(line.toString());
    assert.ok(isAlive(pid));
    if (stopped) process.kill(pid, 'SIGSTOP');
    child.kill('SIGKILL');
    await once(child, 'exit');
    try {
      await waitFor('the engine to be gone', () => !isAlive(pid));
    } finally {
      if (isAlive(pid)) process.kill(pid, 'SIGKILL');
    }
  });
}

test.run();
