/** Tests in a short-lived child process that a model loads and produces one token. */
import { answerOfChild, type Question } from './ask-child.ts';

/** Enough for one token; the model's own context length could need all memory. */
const CONTEXT_LENGTH = 512;

/** Throws the engine's error about the model, ENGINE_CRASHED, or TIMEOUT. */
export async function tryModel(model: string, path: string, timeoutMs: number): Promise<void> {
  const options = { context_length: CONTEXT_LENGTH, max_sequences: 1 };
  const question: Question<true> = {
    ask: { type: 'load', model, path, options, parentPid: process.pid },
    timeoutMs,
    read: (message) => (message.type === 'loaded' ? true : undefined),
  };
  await answerOfChild(question, `timeout: ${model} produced no token`);
}
