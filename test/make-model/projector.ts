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
}

export const PROJECTORS = {
  /** CLIP with two linear layers, as in LLaVA: 16 rows for a picture. */
  clip: { description: 'For tests of tiny-llama', modality: 'vision', type: 'mlp', modelWidth: 128 },
  /** SigLIP, as in Gemma 3: 16 rows that see one another. */
  siglip: { description: 'For tests of tiny-gemma3', modality: 'vision', type: 'gemma3', modelWidth: 64 },
  /** As in Qwen2-VL: a row for each 28 x 28 pixels of a picture of any shape, all at the same position. */
  'qwen2-vl': { description: 'For tests of tiny-qwen2vl', modality: 'vision', type: 'qwen2vl_merger', modelWidth: 64 },
  /** Whisper's encoder, as in Ultravox: 375 rows for each 30 seconds. */
  whisper: { description: 'For tests of tiny-llama', modality: 'audio', type: 'ultravox', modelWidth: 128 },
} as const satisfies Record<string, Projector>;
export type ProjectorName = keyof typeof PROJECTORS;

const WIDTH = 64;
const FORWARD = 192;
const HEADS = 2;
const LAYERS = 3;
const PATCH = 14;
const MEL_BINS = 80;
/** Half of the frames of 30 seconds. */
const POSITIONS = 1500;
const STACKED = 4;
const HIDDEN = 64;
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

function entriesOf({ description, modality, type, modelWidth }: Projector, recipe: string): Entry[] {
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
    entry.uint32(key('embedding_length'), WIDTH),
    entry.uint32(key('feed_forward_length'), FORWARD),
    entry.uint32(key('block_count'), LAYERS),
    entry.uint32(key('projection_dim'), modelWidth),
    entry.uint32(key('attention.head_count'), HEADS),
    entry.float32(key('attention.layer_norm_epsilon'), 1e-5),
    ...(modality === 'audio'
      ? [entry.uint32(key('num_mel_bins'), MEL_BINS), entry.uint32(key('projector.stack_factor'), STACKED)]
      : visionEntries(type)),
  ];
}

function visionEntries(type: Projector['type']): Entry[] {
  return [
    entry.uint32('clip.vision.image_size', imageSize(type)),
    entry.uint32('clip.vision.patch_size', PATCH),
    ...(type === 'gemma3' ? [entry.uint32('clip.vision.projector.scale_factor', 2)] : []),
    entry.float32s('clip.vision.image_mean', [0.5, 0.5, 0.5]),
    entry.float32s('clip.vision.image_std', [0.3, 0.3, 0.3]),
  ];
}

/** In pixels: 16 rows for the model, before which gemma3 joins four patches. */
function imageSize(type: Projector['type']): number {
  return PATCH * (type === 'gemma3' ? 8 : 4);
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
  const layers = Array.from({ length: LAYERS }, (_, layer) => layerTensors(`${prefix}.blk.${layer}`, prefix === 'v'));
  return [...inputTensors(projector), ...layers.flat(), ...outputTensors(projector)];
}

function inputTensors({ modality, type }: Projector): Tensor[] {
  if (modality === 'audio') {
    return [
      weights('a.conv1d.1.weight', [3, MEL_BINS, WIDTH]),
      { ...bias('a.conv1d.1.bias', WIDTH), shape: [1, WIDTH] },
      weights('a.conv1d.2.weight', [3, WIDTH, WIDTH]),
      { ...bias('a.conv1d.2.bias', WIDTH), shape: [1, WIDTH] },
      weights('a.position_embd.weight', [WIDTH, POSITIONS], 'F32', 4),
    ];
  }
  if (type === 'qwen2vl_merger') {
    return ['v.patch_embd.weight', 'v.patch_embd.weight.1'].map((name) => weights(name, [PATCH, PATCH, 3, WIDTH]));
  }
  const patches = (imageSize(type) / PATCH) ** 2;
  const hasClass = type === 'mlp';
  return [
    weights('v.patch_embd.weight', [PATCH, PATCH, 3, WIDTH], 'F16', 2),
    ...(hasClass
      ? [vector('v.class_embd', WIDTH, 0, 1), ...norm('v.pre_ln', WIDTH)]
      : [bias('v.patch_embd.bias', WIDTH)]),
    weights('v.position_embd.weight', [WIDTH, patches + (hasClass ? 1 : 0)], 'F32', 4),
  ];
}

function layerTensors(block: string, hasKeyBias: boolean): Tensor[] {
  return [
    ...norm(`${block}.ln1`, WIDTH),
    weights(`${block}.attn_q.weight`, [WIDTH, WIDTH]),
    bias(`${block}.attn_q.bias`, WIDTH),
    weights(`${block}.attn_k.weight`, [WIDTH, WIDTH]),
    ...(hasKeyBias ? [bias(`${block}.attn_k.bias`, WIDTH)] : []),
    weights(`${block}.attn_v.weight`, [WIDTH, WIDTH]),
    bias(`${block}.attn_v.bias`, WIDTH),
    weights(`${block}.attn_out.weight`, [WIDTH, WIDTH]),
    bias(`${block}.attn_out.bias`, WIDTH),
    ...norm(`${block}.ln2`, WIDTH),
    weights(`${block}.ffn_up.weight`, [WIDTH, FORWARD]),
    bias(`${block}.ffn_up.bias`, FORWARD),
    weights(`${block}.ffn_down.weight`, [FORWARD, WIDTH]),
    bias(`${block}.ffn_down.bias`, WIDTH),
  ];
}

function outputTensors({ type, modelWidth }: Projector): Tensor[] {
  switch (type) {
    case 'mlp':
      return [
        weights('mm.0.weight', [WIDTH, HIDDEN]),
        bias('mm.0.bias', HIDDEN),
        weights('mm.2.weight', [HIDDEN, modelWidth], 'F16', OUTPUT),
        bias('mm.2.bias', modelWidth),
      ];
    case 'gemma3':
      return [
        ...norm('v.post_ln', WIDTH),
        // Not transposed, unlike the others.
        weights('mm.input_projection.weight', [modelWidth, WIDTH], 'F16', OUTPUT),
        vector('mm.soft_emb_norm.weight', WIDTH, 1, 0.1),
      ];
    case 'qwen2vl_merger':
      return [
        ...norm('v.post_ln', WIDTH),
        weights('mm.0.weight', [WIDTH * MERGED, WIDTH * MERGED]),
        bias('mm.0.bias', WIDTH * MERGED),
        weights('mm.2.weight', [WIDTH * MERGED, modelWidth], 'F16', OUTPUT),
        bias('mm.2.bias', modelWidth),
      ];
    case 'ultravox':
      return [
        ...norm('a.post_ln', WIDTH),
        vector('mm.a.norm_pre.weight', WIDTH * STACKED, 1, 0.1),
        weights('mm.a.mlp.1.weight', [WIDTH * STACKED, 2 * HIDDEN]),
        vector('mm.a.norm_mid.weight', HIDDEN, 1, 0.1),
        weights('mm.a.mlp.2.weight', [HIDDEN, modelWidth], 'F16', OUTPUT),
      ];
  }
}
