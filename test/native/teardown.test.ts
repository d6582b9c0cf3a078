/** However a Node environment ends, and whatever the engine is doing, the process exits cleanly by itself. */
import { spawn } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { test } from 'uvu';
import * as assert from 'uvu/assert';

const PROGRAM = fileURLToPath(new URL('teardown-program.ts', import.meta.url));
const TIMEOUT_MS = 180_000;

interface Ended {
  readonly code: number | null;
  readonly signal: string | null;
  readonly output: string;
}

function run(scenario: string, where: 'main' | 'worker'): Promise<Ended> {
  const child = spawn(process.execPath, ['--import', 'tsx', PROGRAM, scenario, where], {
    stdio: ['ignore', 'pipe', 'pipe'],
    timeout: TIMEOUT_MS,
    killSignal: 'SIGKILL',
  });
  let output = '';
  for (const stream of [child.stdout, child.stderr]) stream.on('data', (chunk: Buffer) => (output += chunk.toString()));
  return new Promise((resolve) => child.once('close', (code, signal) => resolve({ code, signal, output })));
}

const SCENARIOS: Record<string, string> = {
  idle: 'an idle engine that was not closed does not keep it alive',
  logging: 'a logger does not keep it alive',
  answering: 'a pending answer keeps it alive until it arrives',
  throwing: 'an exception in onStep is an uncaught exception',
  loading: 'during a load',
  generating: 'during a generation',
  submitting: 'while a prompt is tokenised',
  closing: 'while the engine closes',
  held: 'while the runner is held',
  leavingFromProgress: 'from within onProgress',
  leavingFromStep: 'from within onStep',
};
const LEAVES_EARLY = new Set(['throwing', 'leavingFromProgress', 'leavingFromStep']);
const SAID: Record<string, string> = { answering: 'length', throwing: 'thrown by onStep' };

for (const [scenario, what] of Object.entries(SCENARIOS)) {
  for (const where of ['main', 'worker'] as const) {
    test(`${where === 'main' ? 'a process' : 'a worker thread'} ends: ${what}`, async () => {
      const { code, signal, output } = await run(scenario, where);
      assert.is(signal, null, `killed by ${String(signal)}: ${output}`);
      assert.is(code, 0, output);
      assert.ok(LEAVES_EARLY.has(scenario) || output.includes('ready'), output);
      assert.ok(output.includes(SAID[scenario] ?? ''), output);
      assert.not.match(output, /fatal|assert|Uncaught|terminate called|Warning/);
    });
  }
}

test.run();
