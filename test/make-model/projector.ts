/**
 * Writes synthetic projectors: encoders of pictures or sounds with random weights, of the kinds that libmtmd computes
 * with different code. Their embeddings have about the size of a model's own, so that the text depends on them.
 */
import { FILE_TYPE_NUMBER, encode, type Encoding } from './quantize.ts';
import { randomRows } from './random.ts';
import { perRoot, vector, type Tensor } from './tensors.ts';
import { entry, writeGguf, type Entry } from './writer.ts';

export interface Projector {
  readonly description: string;
  readonly modality: 'vision' | 'audio';
  /** libmtmd's name. */
  readonly type: 'mlp' | 'gemma3' | 'qwen2vl_merger' | 'ultravox';
  /** Width of the model that it belongs to. */
  readonly modelWidth: number;
  readonly width: number;
  readonly forward: number;
  readonly heads: number;
  readonly layers: number;
  /** Width between the two linear layers to the model. */
  readonly hidden: number;
  /** In pixels. */
  readonly patch: number;
  /** Patches in a row of the picture, unless it may have any shape. */
  readonly side: number;
}

const TINY = { width: 64, forward: 192, heads: 2, layers: 3, hidden: 64, patch: 14, side: 4 } as const;
/** Encoders of 86 million weights, for benchmarks: about what belongs to a model of half a billion. */
const BASE = { width: 768, forward: 3072, heads: 12, layers: 12, hidden: 896, patch: 16, side: 24 } as const;

export const PROJECTORS = {
  /** CLIP with two linear layers, as in LLaVA: 16 rows for a picture. */
  clip: { ...TINY, description: 'For tests of tiny-llama', modality: 'vision', type: 'mlp', modelWidth: 128 },
  /** SigLIP, as in Gemma 3: 16 rows that see one another. */
  siglip: {
    ...TINY,
    description: 'For tests of tiny-gemma3',
    modality: 'vision',
    type: 'gemma3',
    modelWidth: 64,
    // Before the model, four patches are joined.
    side: 8,
  },
  /** As in Qwen2-VL: a row for each 28 x 28 pixels of a picture of any shape, all at the same position. */
  'qwen2-vl': {
    ...TINY,
    description: 'For tests of tiny-qwen2vl',
    modality: 'vision',
    type: 'qwen2vl_merger',
    modelWidth: 64,
  },
  /** Whisper's encoder, as in Ultravox: 375 rows for each 30 seconds. */
  whisper: { ...TINY, description: 'For tests of tiny-llama', modality: 'audio', type: 'ultravox', modelWidth: 128 },
  /** As `clip`, with the shape of ViT-B/16 for 384 x 384 pixels: 576 rows for a picture. */
  'clip-base': {
    ...BASE,
    description: 'For benchmarks of qwen2.5-0.5b',
    modality: 'vision',
    type: 'mlp',
    modelWidth: 896,
  },
  /** As `whisper`, with the shape of Whisper small. */
  'whisper-small': {
    ...BASE,
    description: 'For benchmarks of qwen2.5-0.5b',
    modality: 'audio',
    type: 'ultravox',
    modelWidth: 896,
  },
} as const satisfies Record<string, Projector>;
export type ProjectorName = keyof typeof PROJECTORS;
export const TEST_PROJECTORS = ['clip', 'siglip', 'qwen2-vl', 'whisper'] as const satisfies ProjectorName[];

const MEL_BINS = 80;
/** Half of the frames of 30 seconds. */
const POSITIONS = 1500;
const STACKED = 4;
/** Patches of a row. */
const MERGED = 4;
/** Standard deviation of an embedding's numbers. */
const OUTPUT = 0.4;

/** @param recipe as in writeModel */
export async function writeProjector(path: string, projector: Projector, recipe: string): Promise<void> {
  const tensors = tensorsOf(projector);
  const byName = new Map(tensors.map((tensor) => [tensor.name, tensor]));
  await writeGguf(path, entriesOf(projector, recipe), tensors, function* ({ name }) {
    const { weights, encoding } = byName.get(name)!;
    for (const rows of randomRows(weights)) yield encode(encoding, rows);
  });
}

function entriesOf(projector: Projector, recipe: string): Entry[] {
  const { description, modality, type, modelWidth } = projector;
  const key = (name: string): string => `clip.${modality}.${name}`;
  return [
    entry.string('general.architecture', 'clip'),
    entry.string('svc.recipe', recipe),
    entry.string('general.type', 'mmproj'),
    entry.string('general.name', `svc ${type} projector (random weights)`),
    entry.string('general.description', description),
    entry.uint32('general.file_type', FILE_TYPE_NUMBER.F16),
    entry.bool(`clip.has_${modality}_encoder`, true),
    entry.string('clip.projector_type', type),
    entry.bool('clip.use_gelu', true),
    entry.uint32(key('embedding_length'), projector.width),
    entry.uint32(key('feed_forward_length'), projector.forward),
    entry.uint32(key('block_count'), projector.layers),
    entry.uint32(key('projection_dim'), modelWidth),
    entry.uint32(key('attention.head_count'), projector.heads),
    entry.float32(key('attention.layer_norm_epsilon'), 1e-5),
    ...(modality === 'audio'
      ? [entry.uint32(key('num_mel_bins'), MEL_BINS), entry.uint32(key('projector.stack_factor'), STACKED)]
      : visionEntries(projector)),
  ];
}

function visionEntries({ type, patch, side }: Projector): Entry[] {
  return [
    entry.uint32('clip.vision.image_size', patch * side),
    entry.uint32('clip.vision.patch_size', patch),
    ...(type === 'gemma3' ? [entry.uint32('clip.vision.projector.scale_factor', 2)] : []),
    entry.float32s('clip.vision.image_mean', [0.5, 0.5, 0.5]),
    entry.float32s('clip.vision.image_std', [0.3, 0.3, 0.3]),
  ];
}

/** A tensor of any shape, whose random numbers have the deviation that keeps that of its input. */
function weights(name: string, shape: readonly number[], encoding: Encoding = 'F16', gain = 1): Tensor {
  const [length = 1] = shape;
  const values = shape.reduce((product, each) => product * each, 1);
  const inputs = shape.slice(0, -1).reduce((product, each) => product * each, 1);
  return {
    name,
    shape,
    encoding,
    weights: { name, rows: values / length, rowLength: length, mean: 0, deviation: gain * perRoot(inputs) },
  };
}

function bias(name: string, length: number): Tensor {
  return vector(name, length, 0, 0.1);
}

function norm(name: string, length: number): Tensor[] {
  return [vector(`${name}.weight`, length, 1, 0.1), bias(`${name}.bias`, length)];
}

function tensorsOf(projector: Projector): Tensor[] {
  const prefix = projector.modality === 'vision' ? 'v' : 'a';
  const layers = Array.from({ length: projector.layers }, (_, layer) =>
    layerTensors(`${prefix}.blk.${layer}`, projector),
  );
  return [...inputTensors(projector), ...layers.flat(), ...outputTensors(projector)];
}

function inputTensors({ modality, type, width, patch, side }: Projector): Tensor[] {
  if (modality === 'audio') {
    return [
      weights('a.conv1d.1.weight', [3, MEL_BINS, width]),
      { ...bias('a.conv1d.1.bias', width), shape: [1, width] },
      weights('a.conv1d.2.weight', [3, width, width]),
      { ...bias('a.conv1d.2.bias', width), shape: [1, width] },
      weights('a.position_embd.weight', [width, POSITIONS], 'F32', 4),
    ];
  }
  if (type === 'qwen2vl_merger') {
    return ['v.patch_embd.weight', 'v.patch_embd.weight.1'].map((name) => weights(name, [patch, patch, 3, width]));
  }
  const hasClass = type === 'mlp';
  return [
    weights('v.patch_embd.weight', [patch, patch, 3, width], 'F16', 2),
    ...(hasClass
      ? [vector('v.class_embd', width, 0, 1), ...norm('v.pre_ln', width)]
      : [bias('v.patch_embd.bias', width)]),
    weights('v.position_embd.weight', [width, side ** 2 + (hasClass ? 1 : 0)], 'F32', 4),
  ];
}

function layerTensors(block: string, { modality, width, forward }: Projector): Tensor[] {
  return [
    ...norm(`${block}.ln1`, width),
    weights(`${block}.attn_q.weight`, [width, width]),
    bias(`${block}.attn_q.bias`, width),
    weights(`${block}.attn_k.weight`, [width, width]),
    ...(modality === 'vision' ? [bias(`${block}.attn_k.bias`, width)] : []),
    weights(`${block}.attn_v.weight`, [width, width]),
    bias(`${block}.attn_v.bias`, width),
    weights(`${block}.attn_out.weight`, [width, width]),
    bias(`${block}.attn_out.bias`, width),
    ...norm(`${block}.ln2`, width),
    weights(`${block}.ffn_up.weight`, [width, forward]),
    bias(`${block}.ffn_up.bias`, forward),
    weights(`${block}.ffn_down.weight`, [forward, width]),
    bias(`${block}.ffn_down.bias`, width),
  ];
}

function outputTensors({ type, modelWidth, width, hidden }: Projector): Tensor[] {
  switch (type) {
    case 'mlp':
      return [
        weights('mm.0.weight', [width, hidden]),
        bias('mm.0.bias', hidden),
        weights('mm.2.weight', [hidden, modelWidth], 'F16', OUTPUT),
        bias('mm.2.bias', modelWidth),
      ];
    case 'gemma3':
      return [
        ...norm('v.post_ln', width),
        // Not transposed, unlike the others.
        weights('mm.input_projection.weight', [modelWidth, width], 'F16', OUTPUT),
        vector('mm.soft_emb_norm.weight', width, 1, 0.1),
      ];
    case 'qwen2vl_merger':
      return [
        ...norm('v.post_ln', width),
        weights('mm.0.weight', [width * MERGED, width * MERGED]),
        bias('mm.0.bias', width * MERGED),
        weights('mm.2.weight', [width * MERGED, modelWidth], 'F16', OUTPUT),
        bias('mm.2.bias', modelWidth),
      ];
    case 'ultravox':
      return [
        ...norm('a.post_ln', width),
        vector('mm.a.norm_pre.weight', width * STACKED, 1, 0.1),
        weights('mm.a.mlp.1.weight', [width * STACKED, 2 * hidden]),
        vector('mm.a.norm_mid.weight', hidden, 1, 0.1),
        weights('mm.a.mlp.2.weight', [hidden, modelWidth], 'F16', OUTPUT),
      ];
  }
}
