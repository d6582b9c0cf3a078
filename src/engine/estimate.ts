/** Estimates a model's memory in a short-lived child process, because a bad file may crash libllama. */
import type { NativeLoadOptions, NativeMemoryEstimates } from './addon.ts';
import { answerOfChild, type Question } from './ask-child.ts';
import { usableGpu } from './gpu.ts';
import type { SpawnOptions } from './spawn.ts';

const TIMEOUT_MS = 120_000;

/** `contextLengths`: 0 is the default. Throws the engine's error about the model, ENGINE_CRASHED, or TIMEOUT. */
export async function estimateModel(
  model: { readonly id: string; readonly path: string },
  options: NativeLoadOptions,
  contextLengths: readonly number[],
  { entry }: Pick<SpawnOptions, 'entry'> = {},
): Promise<NativeMemoryEstimates> {
  const { module } = await usableGpu();
  const question: Question<NativeMemoryEstimates> = {
    entry,
    gpuModule: module,
    ask: { type: 'estimate', model: model.id, path: model.path, options, contextLengths, parentPid: process.pid },
    timeoutMs: TIMEOUT_MS,
    read: (message) => (message.type === 'estimated' ? message.estimates : undefined),
  };
  return await answerOfChild(question, `timeout: no memory estimate of ${model.id}`);
}
