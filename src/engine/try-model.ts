/** Tests in a short-lived child process that a model loads and produces one token. */
import { answerOfChild, type Question } from './ask-child.ts';
import type { EngineInfo } from './addon.ts';

/** Enough for one token; the model's own context length could need all memory. */
const CONTEXT_LENGTH = 512;

/**
 * `shaderFolder` as in the message. Returns what the load has found. Throws the engine's error about the model,
 * ENGINE_CRASHED, or TIMEOUT.
 */
export async function tryModel(
  model: string,
  path: string,
  timeoutMs: number,
  shaderFolder?: string,
): Promise<EngineInfo> {
  const options = { context_length: CONTEXT_LENGTH, max_sequences: 1 };
  const question: Question<EngineInfo> = {
    ask: { type: 'load', model, path, options, shaderFolder, parentPid: process.pid },
    timeoutMs,
    read: (message) => (message.type === 'loaded' ? message.info : undefined),
  };
  return await answerOfChild(question, `timeout: ${model} produced no token`);
}
