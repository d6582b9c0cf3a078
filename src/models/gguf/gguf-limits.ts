/** Limits on values in a model file: far above any real model, or libllama's own limits. Listed in docs/models.md. */

/** A file that exceeds one of these is damaged or hostile. */
export const GGUF_LIMITS = {
  headerBytes: 128 * 1024 * 1024,
  // libllama compares the name of each entry with all entries before it.
  entries: 4096,
  tensors: 16_384,
  keyBytes: 1024,
  /** A longer text is accepted, but not read. */
  textBytes: 1024 * 1024,
  tensorNameBytes: 63,
  dimensions: 4,
  alignment: 1024 * 1024,
  architectureBytes: 64,
  /** Real vocabularies have up to three. */
  mergesPerToken: 16,
  parts: 1000,
  /** Real adapters have up to 512. */
  adapterRank: 4096,
  /** libllama's lexer takes quadratic time for some templates. */
  templateBytes: 256 * 1024,
  /** Limit of templateDepth(). Real templates stay below 40; the smallest stack in use holds several hundred levels. */
  templateDepth: 150,
} as const;

export interface Range {
  readonly least: number;
  readonly most: number;
}

const LAYERS = 512;
const WIDTH = 1_048_576;
const HEADS = 65_536;
const EXPERTS = 1024;

/**
 * Ranges of `ARCHITECTURE.KEY`. libllama aborts the process above its built-in limits of layers and experts, divides
 * by some of the other values, and uses the rest as sizes.
 */
export const MODEL_RANGES = {
  block_count: { least: 1, most: LAYERS },
  nextn_predict_layers: { least: 0, most: LAYERS },
  context_length: { least: 1, most: 2 ** 31 - 1 },
  embedding_length: { least: 1, most: WIDTH },
  vocab_size: { least: 1, most: 16 * WIDTH },
  feed_forward_length: { least: 0, most: 16 * WIDTH },
  'attention.head_count': { least: 0, most: HEADS },
  'attention.head_count_kv': { least: 0, most: HEADS },
  'attention.key_length': { least: 1, most: HEADS },
  'attention.value_length': { least: 1, most: HEADS },
  'rope.dimension_count': { least: 0, most: HEADS },
  expert_count: { least: 0, most: EXPERTS },
  expert_used_count: { least: 0, most: EXPERTS },
  expert_group_count: { least: 0, most: EXPERTS },
  expert_group_used_count: { least: 0, most: EXPERTS },
  'ssm.group_count': { least: 0, most: HEADS },
  'wkv.head_size': { least: 1, most: HEADS },
} as const satisfies Record<string, Range>;

/** Ranges of `clip.vision.KEY` and `clip.audio.KEY` in a projector. */
export const PROJECTOR_RANGES = {
  block_count: { least: 0, most: LAYERS },
  embedding_length: { least: 1, most: WIDTH },
  feed_forward_length: { least: 0, most: 16 * WIDTH },
  projection_dim: { least: 0, most: WIDTH },
  'attention.head_count': { least: 0, most: HEADS },
  image_size: { least: 1, most: 65_536 },
  patch_size: { least: 1, most: 65_536 },
  spatial_merge_size: { least: 1, most: 1024 },
  'projector.scale_factor': { least: 1, most: 1024 },
  num_mel_bins: { least: 1, most: 65_536 },
} as const satisfies Record<string, Range>;
