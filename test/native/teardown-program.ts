/**
 * Ends a Node environment during some activity: `teardown-program.ts SCENARIO main|worker`. In a Worker, scenarios
 * that do not end by themselves are terminated. Prints `ready` when the activity has begun, and further output of the
 * scenario.
 */
import { isMainThread, parentPort, Worker, workerData } from 'node:worker_threads';
import type { NativeEngine, NativeOutput } from '../../src/engine/addon.ts';
import { modelPath, openAddon } from '../support/native-engine.ts';

const ROUNDS = 2;
/** A Worker does not inherit the TypeScript loader of its parent. */
const BOOT = `import(${JSON.stringify(import.meta.resolve('tsx/esm/api'))}).then(({ register }) => {
  register();
  return import(${JSON.stringify(import.meta.url)});
});`;
const ignore = (): void => undefined;

/** Writes directly to the descriptor, because a Worker's own streams pass through the main thread. */
const say = (text: string): void => {
  (process as unknown as { _rawDebug: (text: string) => void })._rawDebug(text);
};

const load = (
  onStep: (outputs: NativeOutput[]) => void = ignore,
  onProgress: (fraction: number) => void = ignore,
): Promise<NativeEngine> =>
  openAddon().load(modelPath('tiny-llama'), { context_length: 2048, threads: 2 }, onProgress, onStep);
const endless = { id: 1, prompt: 'a', max_tokens: 1900, sampling: { temperature: 0 } };
/** A prompt that takes long to template and tokenise. */
const long = { id: 2, prompt: 'word '.repeat(200_000) };

/** Each scenario resolves when its activity has begun. */
const scenarios: Record<string, () => Promise<void>> = {
  async idle() {
    await load();
  },
  async logging() {
    openAddon().setLogger(ignore);
    await load();
  },
  loading() {
    void load();
    return Promise.resolve();
  },
  async generating() {
    const engine = await load();
    await engine.submit(endless);
  },
  async submitting() {
    const engine = await load();
    engine.submit(long).catch(ignore);
  },
  async closing() {
    const engine = await load();
    await engine.submit(endless);
    void engine.close();
  },
  async held() {
    const engine = await load();
    await engine.submit(endless);
    engine.pause(1);
    engine.hold(true);
  },
  /** Must keep the process alive until the answer has arrived, and no longer. */
  async answering() {
    const engine = await load((outputs) => {
      for (const { finish } of outputs) if (finish !== undefined) say(finish.reason);
    });
    void engine.submit({ ...endless, max_tokens: 50 });
  },
  async throwing() {
    process.once('uncaughtException', (error) => {
      say(error.message);
      process.exit(0);
    });
    const engine = await load(() => {
      throw new Error('thrown by onStep');
    });
    await engine.submit(endless);
  },
  /** Blocks until the load has ended, so that the last progress and the end arrive in one wake-up. */
  async leavingFromProgress() {
    await load(ignore, () => {
      const until = performance.now() + 500;
      while (performance.now() < until);
      process.exit(0);
    });
  },
  async leavingFromStep() {
    const engine = await load(() => process.exit(0));
    await engine.submit(endless);
  },
};

const endsByItself = new Set(['idle', 'logging', 'answering', 'throwing', 'leavingFromProgress', 'leavingFromStep']);

async function inWorker(name: string): Promise<void> {
  for (let round = 0; round < ROUNDS; round++) {
    const worker = new Worker(BOOT, { eval: true, workerData: name });
    worker.on('error', (error) => {
      say(`worker failed: ${String(error)}`);
      process.exitCode = 1;
    });
    const exit = new Promise((resolve) => worker.once('exit', resolve));
    if (!endsByItself.has(name)) {
      await new Promise((resolve) => worker.once('message', resolve));
      await worker.terminate();
    }
    await exit;
  }
}

const [name = '', where] = isMainThread ? process.argv.slice(2) : [workerData as string];
if (where === 'worker') {
  await inWorker(name);
} else {
  await scenarios[name]?.();
  say('ready');
  parentPort?.postMessage('ready');
  if (isMainThread && !endsByItself.has(name)) process.exit(0);
}
