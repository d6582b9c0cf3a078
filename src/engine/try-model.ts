/** Tests in a short-lived child process that a model loads and produces one token. */
import { SvcError } from '../protocol/errors.ts';
import { askChild } from './ask-child.ts';

/** Enough for one token; the model's own context length could need all memory. */
const CONTEXT_LENGTH = 512;

/** Throws the engine's error about the model, ENGINE_CRASHED, or TIMEOUT. */
export async function tryModel(model: string, path: string, timeoutMs: number): Promise<void> {
  const options = { context_length: CONTEXT_LENGTH, max_sequences: 1 };
  const { answer, end, isLate } = await askChild<'loaded' | SvcError>({
    ask: { type: 'load', model, path, options, parentPid: process.pid },
    timeoutMs,
    read(message) {
      if (message.type === 'loaded') return 'loaded';
      return message.type === 'failed' ? SvcError.fromRecord(message.error) : undefined;
    },
  });
  if (answer === 'loaded') return;
  if (answer !== undefined) throw answer;
  throw isLate
    ? new SvcError('TIMEOUT', `timeout: ${model} produced no token within ${String(timeoutMs / 1000)} s`)
    : new SvcError('ENGINE_CRASHED', `the engine process ${end}`);
}
