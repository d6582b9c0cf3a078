/** The child's side of quantizing a model. libllama reports progress only in its log. */
import { closeSync } from 'node:fs';
import { openToAppendSync } from '../files/open-file.ts';
import { SvcError } from '../protocol/errors.ts';
import type { FromEngine, ToEngine } from './messages.ts';
import { loadAddon } from './loader.ts';
import { enterSandbox } from './sandbox.ts';

type Quantize = Extract<ToEngine, { type: 'quantize' }>;

/** `[  12/ 290] blk.1.ffn_down.weight - [...], ...` once the tensor is done. */
const TENSOR = /^\[ *\d+\/ *\d+\] (\S+)/;
/** `llama_model_quantize_impl: quant size  =     1.23 MiB (4.50 BPW)`. */
const SIZE = /quant size +=\s+([\d.]+) MiB/;
const MIB = 1024 * 1024;
const MOST_TURNS = 10_000;

export async function quantizeHere(
  { options, parentPid }: Quantize,
  send: (message: FromEngine) => void,
): Promise<void> {
  try {
    const { addon, directory } = loadAddon();
    addon.dieWithParent(parentPid);
    const told: { mebibytes: number | null } = { mebibytes: null };
    addon.setLogger((_level, text) => {
      const tensor = TENSOR.exec(text)?.[1];
      if (tensor !== undefined) send({ type: 'tensor', name: tensor });
      const mebibytes = SIZE.exec(text)?.[1];
      if (mebibytes !== undefined) told.mebibytes = Number(mebibytes);
    });
    addon.loadBackends(directory);
    const output = options.dry_run === true ? undefined : options.output;
    // Created now: in the sandbox it can write existing files but create none.
    if (output !== undefined) closeSync(openToAppendSync(output));
    enterSandbox({ models: [options.input], output, addonFolder: directory });
    await addon.quantize(options);
    // Log lines arrive in batches, on later turns of the event loop.
    for (let turns = 0; told.mebibytes === null && turns < MOST_TURNS; turns += 1) await new Promise(setImmediate);
    if (told.mebibytes === null) throw new SvcError('INTERNAL', 'libllama did not log the size of the quantized model');
    send({ type: 'quantized', bytes: Math.ceil(told.mebibytes * MIB) });
  } catch (error) {
    send({ type: 'failed', error: SvcError.from(error).toRecord() });
  }
}
