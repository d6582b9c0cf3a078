/** One model file quantised in a child: a crash costs nothing, and whoever loses patience ends it. */
import { SvcError } from '../protocol/errors.ts';
import type { NativeQuantizeOptions } from './addon.ts';
import { askChild } from './ask-child.ts';
import type { SpawnOptions } from './spawn.ts';

export interface QuantizeFileOptions extends NativeQuantizeOptions, SpawnOptions {
  /** Aborting it ends the child. */
  readonly signal: AbortSignal;
  /** Of each tensor, when it is done. */
  onTensor?(name: string): void;
}

/**
 * The bytes of the new weights. What lies at `output` after an error is the caller's to remove.
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
  throw new SvcError('ENGINE_CRASHED', `the process that quantised ${end}`, {
    hint: 'look whether the file is whole: svc model verify; and whether there was enough memory',
  });
}
