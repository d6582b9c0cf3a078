/** Quantizes one model file in a child process, which may crash or be aborted without harm. */
import { SvcError } from '../protocol/errors.ts';
import type { NativeQuantizeOptions } from './addon.ts';
import { askChild } from './ask-child.ts';
import type { SpawnOptions } from './spawn.ts';

export interface QuantizeFileOptions extends NativeQuantizeOptions, SpawnOptions {
  /** Aborting kills the child. */
  readonly signal: AbortSignal;
  /** Called for each tensor when it is done. */
  onTensor?(name: string): void;
}

/**
 * Returns the size of the new weights in bytes. After an error the caller must remove `output`.
 * @throws SvcError MODEL_INVALID, OUT_OF_MEMORY, ENGINE_CRASHED, ENGINE_UNAVAILABLE; `signal.reason`
 */
export async function quantizeFile({
  signal,
  onTensor,
  entry,
  gpuModule,
  ...options
}: QuantizeFileOptions): Promise<number> {
  const { answer, end } = await askChild<number | SvcError>({
    entry,
    gpuModule,
    ask: { type: 'quantize', options, parentPid: process.pid },
    signal,
    read(message) {
      if (message.type === 'tensor') onTensor?.(message.name);
      if (message.type === 'failed') return SvcError.fromRecord(message.error);
      return message.type === 'quantized' ? message.bytes : undefined;
    },
  });
  signal.throwIfAborted();
  if (answer instanceof SvcError) throw answer;
  if (answer !== undefined) return answer;
  throw new SvcError('ENGINE_CRASHED', `the quantize process ${end}`, {
    hint: 'check the file with `svc model verify`, and that enough memory is free',
  });
}
