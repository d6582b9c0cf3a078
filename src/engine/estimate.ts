/** Estimates a model's memory in a short-lived child process, because a bad file may crash libllama. */
import { SvcError } from '../protocol/errors.ts';
import type { NativeLoadOptions, NativeMemoryEstimates } from './addon.ts';
import { askChild } from './ask-child.ts';
import { usableGpu } from './gpu.ts';

const TIMEOUT_MS = 120_000;

/** `contextLengths`: 0 is the default. Throws the engine's error about the model, ENGINE_CRASHED, or TIMEOUT. */
export async function estimateModel(
  model: { readonly id: string; readonly path: string },
  options: NativeLoadOptions,
  contextLengths: readonly number[],
): Promise<NativeMemoryEstimates> {
  const gpu = await usableGpu();
  const { answer, end, isLate } = await askChild<NativeMemoryEstimates | SvcError>({
    gpuModule: gpu.module,
    ask: { type: 'estimate', model: model.id, path: model.path, options, contextLengths, parentPid: process.pid },
    timeoutMs: TIMEOUT_MS,
    read(message) {
      if (message.type === 'estimated') return message.estimates;
      return message.type === 'not_estimated' ? SvcError.fromRecord(message.error) : undefined;
    },
  });
  if (answer instanceof SvcError) throw answer;
  if (answer !== undefined) return answer;
  throw isLate
    ? new SvcError('TIMEOUT', `timeout: no memory estimate of ${model.id} within ${String(TIMEOUT_MS / 1000)} s`)
    : new SvcError('ENGINE_CRASHED', `the engine process ${end}`);
}
