/**
 * Checks files of LoRA adapters before libllama reads them. A pair of tensors `NAME.lora_a` and `NAME.lora_b` is added
 * to the weight NAME of the model: W + scale · B · A. libllama loads any pair whose outer dimensions fit, and aborts
 * the process in the first step if the others do not; so every dimension is compared here.
 */
import { VALUE_TYPE } from './ggml-types.ts';
import { quoted } from './gguf-cursor.ts';
import { ADAPTER, partsOf, readGgufHeader } from './gguf.ts';
import { GGUF_LIMITS } from './gguf-limits.ts';
import type { GgufEntry, GgufTensor } from './gguf-values.ts';
import { SvcError } from '../../protocol/errors.ts';
import { given } from '../../protocol/given.ts';

const ALPHA = 'adapter.lora.alpha';
/** Types that llama.cpp's converter writes. */
const TYPES: readonly string[] = ['F32', 'F16', 'BF16', 'Q8_0'];

/**
 * Checks that `path` is a LoRA adapter for the model in `modelFiles`.
 * @throws SvcError MODEL_NOT_FOUND, MODEL_INVALID
 */
export async function checkAdapter(path: string, modelFiles: readonly string[]): Promise<void> {
  const header = await readGgufHeader(path);
  const invalid = (what: string, hint?: string): SvcError =>
    new SvcError('MODEL_INVALID', `${path} ${what}`, given({ hint }));
  const { metadata, tensors } = header;
  checkKind(metadata, invalid);
  if (partsOf(header) > 1) throw invalid('is one of several parts: libllama reads an adapter from one file');

  const weights = new Map<string, GgufTensor>();
  let architecture: unknown;
  for (const file of modelFiles) {
    const model = await readGgufHeader(file);
    architecture ??= model.metadata.get('general.architecture')?.value;
    for (const tensor of model.tensors) weights.set(tensor.name, tensor);
  }
  const own = metadata.get('general.architecture')?.value;
  if (own !== architecture) {
    throw invalid(
      `is an adapter of another base: its architecture is ${shown(own)}, the model's ${shown(architecture)}`,
    );
  }
  for (const [name, pair] of pairsOf(tensors, invalid)) {
    const fault = faultOf(name, pair, weights);
    if (fault !== undefined) throw invalid(fault, 'use it with the model that it was trained for');
  }
}

type Invalid = (what: string, hint?: string) => SvcError;

interface Pair {
  readonly a: GgufTensor;
  readonly b: GgufTensor;
}

/** libllama asserts the types of these values. */
function checkKind(metadata: ReadonlyMap<string, GgufEntry>, invalid: Invalid): void {
  if (metadata.get('general.type')?.value !== ADAPTER) {
    throw invalid('is not an adapter (general.type)', 'add a model without --adapter-of');
  }
  const type = metadata.get('adapter.type')?.value;
  if (type !== 'lora') throw invalid(`is an adapter of type ${shown(type)}; only lora can be loaded`);
  const alpha = metadata.get(ALPHA);
  if (alpha !== undefined && (alpha.type !== VALUE_TYPE.float32 || !Number.isFinite(alpha.value))) {
    throw invalid(`has no finite number (float32) in ${quoted(ALPHA)}`);
  }
  if (metadata.has('adapter.alora.invocation_tokens')) {
    throw invalid('is an activated LoRA (aLoRA), which would have to be switched on within a prompt: not supported');
  }
}

function pairsOf(tensors: readonly GgufTensor[], invalid: Invalid): [name: string, pair: Pair][] {
  const halves = new Map<string, Partial<Pair>>();
  for (const tensor of tensors) {
    const [, name = '', half] = /^(.+)\.lora_(a|b)$/.exec(tensor.name) ?? [];
    // libllama skips vectors of norms.
    if (half === undefined && tensor.name.endsWith('_norm.weight')) continue;
    if (half === undefined || /\.lora_[ab]/.test(name)) {
      throw invalid(`has a tensor that belongs to no LoRA: ${quoted(tensor.name)}`);
    }
    if (!TYPES.includes(tensor.type.name)) {
      throw invalid(`stores tensor ${quoted(tensor.name)} as ${tensor.type.name}; adapters are ${TYPES.join(', ')}`);
    }
    halves.set(name, { ...halves.get(name), [half]: tensor });
  }
  if (halves.size === 0) throw invalid('has no tensors of an adapter');
  return [...halves].map(([name, { a, b }]) => {
    if (a === undefined || b === undefined) {
      throw invalid(`has no ${a === undefined ? 'lora_a' : 'lora_b'} for tensor ${quoted(name)}`);
    }
    return [name, { a, b }];
  });
}

/** Why the pair cannot be added to the model's weight; undefined: it can. Continues the path of the file. */
function faultOf(name: string, { a, b }: Pair, weights: ReadonlyMap<string, GgufTensor>): string | undefined {
  const weight = weights.get(name);
  if (weight === undefined) return `is an adapter of another base: the model has no tensor ${quoted(name)}`;
  if (weight.type.name === 'NVFP4') return `adapts tensor ${quoted(name)}, which is NVFP4: not supported by libllama`;
  const [columns, rows, ...others] = shapeOf(weight);
  const [[aColumns, aRows, ...aOthers], [bColumns, bRows, ...bOthers]] = [shapeOf(a), shapeOf(b)];
  // Rows of token embeddings are looked up, so A is stored transposed.
  const isLookedUp = name.endsWith('token_embd.weight');
  const [rank, inner] = isLookedUp ? [aColumns, bColumns] : [aRows, bColumns];
  const outer = isLookedUp ? [bRows, aRows] : [aColumns, bRows];
  const fits =
    outer[0] === columns &&
    outer[1] === rows &&
    rank === inner &&
    [aOthers, bOthers].every((each) => each.join() === others.join());
  if (!fits) {
    return `is an adapter of another base: its tensors for ${quoted(name)} do not fit a weight of ${weight.shape.join(' × ')}`;
  }
  if (rank > GGUF_LIMITS.adapterRank) {
    return `has rank ${rank} in tensor ${quoted(name)}; the limit is ${GGUF_LIMITS.adapterRank}`;
  }
  // libllama would also multiply with it, in the other orientation.
  if (name === 'token_embd.weight' && !weights.has('output.weight')) {
    return `adapts tensor ${quoted(name)}, which is also the output matrix of this model: not supported by libllama`;
  }
  return undefined;
}

function shapeOf({
  shape: [columns = 1, rows = 1, third = 1, fourth = 1],
}: GgufTensor): [number, number, number, number] {
  return [columns, rows, third, fourth];
}

function shown(value: unknown): string {
  return typeof value === 'string' ? quoted(value) : 'not given';
}
