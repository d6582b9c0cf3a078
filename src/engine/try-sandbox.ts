/** Tests the engine sandbox on this machine: a short-lived child process attempts what it forbids. */
import { answerOfChild, type Question } from './ask-child.ts';
import type { FromEngine } from './messages.ts';

export type TriedSandbox = Omit<Extract<FromEngine, { type: 'sandbox_tried' }>, 'type'>;

const TIMEOUT_MS = 60_000;

/** Throws ENGINE_UNAVAILABLE, ENGINE_CRASHED or TIMEOUT. */
export async function trySandbox(): Promise<TriedSandbox> {
  const question: Question<TriedSandbox> = {
    ask: { type: 'try_sandbox', parentPid: process.pid },
    timeoutMs: TIMEOUT_MS,
    read: (message) => (message.type === 'sandbox_tried' ? message : undefined),
  };
  return await answerOfChild(question, 'no answer from a sandboxed process');
}
