/** Tests the engine sandbox on this machine: a short-lived child process attempts what it forbids. */
import type { SandboxReport } from '../process/addon.ts';
import { SvcError } from '../protocol/errors.ts';
import { askChild } from './ask-child.ts';
import type { SandboxAttempt } from './messages.ts';

export interface TriedSandbox {
  readonly report: SandboxReport;
  readonly attempts: readonly SandboxAttempt[];
}

const TIMEOUT_MS = 60_000;

/** Throws ENGINE_UNAVAILABLE, ENGINE_CRASHED or TIMEOUT. */
export async function trySandbox(): Promise<TriedSandbox> {
  const { answer, end, isLate } = await askChild<TriedSandbox | SvcError>({
    ask: { type: 'try_sandbox', parentPid: process.pid },
    timeoutMs: TIMEOUT_MS,
    read(message) {
      if (message.type === 'failed') return SvcError.fromRecord(message.error);
      return message.type === 'sandbox_tried' ? message : undefined;
    },
  });
  if (answer instanceof SvcError) throw answer;
  if (answer !== undefined) return answer;
  throw isLate
    ? new SvcError('TIMEOUT', `no answer from a sandboxed process within ${String(TIMEOUT_MS / 1000)} s`)
    : new SvcError('ENGINE_CRASHED', `the engine process ${end}`);
}
