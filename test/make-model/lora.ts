/**
 * Writes synthetic LoRA adapters with random weights. Their corrections are as large as what they correct, so that the
 * text depends on them.
 */
import { FILE_TYPE_NUMBER, encode } from './quantize.ts';
import { PRESETS, type PresetName } from './presets.ts';
import { randomRows } from './random.ts';
import { matrices, perRoot, type Tensor } from './tensors.ts';
import { entry, writeGguf } from './writer.ts';

export interface Lora {
  /** Its base model. */
  readonly base: PresetName;
  /** Matrices of each layer that it corrects. */
  readonly weights: readonly ('attn_q' | 'attn_v' | 'ffn_up' | 'ffn_down')[];
  readonly encoding: 'F32' | 'F16';
  /** Number of rows of A and columns of B. Absent: RANK. */
  readonly rank?: number;
}

/** For measuring: with the rank and the matrices that people train. */
const MEASURED = {
  base: 'qwen2.5-0.5b',
  weights: ['attn_q', 'attn_v', 'ffn_up', 'ffn_down'],
  encoding: 'F16',
  rank: 16,
} as const;

export const LORAS = {
  'llama-attention': { base: 'tiny-llama', weights: ['attn_q', 'attn_v'], encoding: 'F32' },
  'llama-forward': { base: 'tiny-llama', weights: ['ffn_up', 'ffn_down'], encoding: 'F16' },
  qwen2: { base: 'tiny-qwen2', weights: ['attn_q', 'ffn_up'], encoding: 'F16' },
  gemma3: { base: 'tiny-gemma3', weights: ['attn_q', 'ffn_up'], encoding: 'F32' },
  /** For a recurrent model; only its feed-forward part. */
  qwen35: { base: 'tiny-qwen35', weights: ['ffn_up', 'ffn_down'], encoding: 'F32' },
  'lora-1': MEASURED,
  'lora-2': MEASURED,
  'lora-3': MEASURED,
  'lora-4': MEASURED,
} as const satisfies Record<string, Lora>;
export type LoraName = keyof typeof LORAS;
/** Made with the test models. */
export const TEST_LORAS = (Object.keys(LORAS) as LoraName[]).filter((name) => LORAS[name] !== MEASURED);

const RANK = 4;
const ALPHA = 8;
/** Standard deviation of a correction's output for inputs of deviation 1. */
const GAIN = 0.5;

/** @param recipe as in writeModel */
export async function writeLora(path: string, name: LoraName, recipe: string): Promise<void> {
  const lora: Lora = LORAS[name];
  const { architecture } = PRESETS[lora.base];
  const tensors = tensorsOf(name, lora);
  const byName = new Map(tensors.map((tensor) => [tensor.name, tensor]));
  const entries = [
    entry.string('general.architecture', architecture),
    entry.string('svc.recipe', recipe),
    entry.string('general.type', 'adapter'),
    entry.string('general.name', `svc ${name} adapter (random weights)`),
    entry.string('general.description', `For tests of ${lora.base}`),
    entry.uint32('general.file_type', FILE_TYPE_NUMBER[lora.encoding]),
    entry.string('adapter.type', 'lora'),
    entry.float32('adapter.lora.alpha', ALPHA),
  ];
  await writeGguf(path, entries, tensors, function* (plan) {
    const { weights, encoding } = byName.get(plan.name)!;
    for (const rows of randomRows(weights)) yield encode(encoding, rows);
  });
}

function tensorsOf(name: LoraName, { base, weights, encoding, rank = RANK }: Lora): Tensor[] {
  const {
    layers,
    embeddingLength: width,
    feedForwardLength: forward,
    heads,
    keyValueHeads,
    headLength,
  } = PRESETS[base];
  const shapes = {
    attn_q: [width, heads * headLength],
    attn_v: [width, keyValueHeads * headLength],
    ffn_up: [width, forward],
    ffn_down: [forward, width],
  } as const;
  const matrix = matrices(encoding);
  return Array.from({ length: layers }, (_, layer) =>
    weights.flatMap((weight) => {
      const [inputs, outputs] = shapes[weight];
      const block = `blk.${layer}.${weight}.weight`;
      return [
        matrix(`${block}.lora_a`, inputs, rank, perRoot(inputs)),
        matrix(`${block}.lora_b`, rank, outputs, (GAIN * rank * perRoot(rank)) / ALPHA),
      ].map((tensor) => ({ ...tensor, weights: { ...tensor.weights, name: `${name} ${tensor.name}` } }));
    }),
  ).flat();
}
