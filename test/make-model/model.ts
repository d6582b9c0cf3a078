/**
 * Writes one synthetic model of a preset's shape: metadata and tensors of a decoder with RMSNorm, gated feed-forward
 * and tied embeddings, or of an encoder (bert.ts).
 *
 * The scales of the weights make the text useful for tests:
 * - Embeddings are scaled so that logits have a standard deviation of 2.5: the gap between the best two tokens is far
 *   larger than rounding errors, and sampling at temperature 0.8 still has a choice.
 * - The output of the layers outweighs the token's own embedding by twice the root of the width. With tied
 *   embeddings a token would otherwise mostly predict itself, and greedy text would repeat one word.
 * - Queries and keys are large enough for attention to prefer some positions, so that the next token depends on the
 *   whole context and greedy text does not loop early. The deeper the model, the smaller the share of attention:
 *   repeated mixing would make all positions alike.
 * - Tokens that are not text (control, byte, unused) have small embeddings and so are never chosen.
 */
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { bertEntries, bertTensors } from './bert.ts';
import type { Preset } from './presets.ts';
import {
  deltaNetEntries,
  deltaNetTensors,
  mambaEntries,
  mambaTensors,
  shortConvolutionEntries,
  shortConvolutionTensors,
} from './recurrent.ts';
import { expertEntries, expertTensors } from './experts.ts';
import { encode, FILE_TYPE_NUMBER, type Encoding } from './quantize.ts';
import { randomRows } from './random.ts';
import { matrices, perRoot, textOnly, vector, type Tensor } from './tensors.ts';
import { readVocabulary, type Vocabulary } from './vocabulary.ts';
import { entry, writeGguf, type Entry } from './writer.ts';

const LOGIT_DEVIATION = 2.5;
const QUERY_KEY_DEVIATION = 1.5;
/** RMS of silu(gate) * up for standard normal inputs, and (below) of an attention output. */
const GATED_RMS = 0.6;
const MIXED_VALUE_RMS = 0.25;
const SILENT_ROW_SCALE = 0.05;

/** Pooling types of llama.cpp. */
const POOLING_TYPE = { mean: 1, last: 3, rank: 4 } as const;

/** @param recipe is stored in the file, so that a later call can check whether the file is up to date */
export async function writeModel(
  path: string,
  preset: Preset,
  encoding: Encoding,
  llamaSource: string,
  recipe: string,
): Promise<void> {
  const vocabulary = await readVocabulary(llamaSource, preset.vocabulary);
  const tensors = (preset.architecture === 'bert' ? bertTensors : decoderTensors)(preset, encoding, vocabulary);
  const byName = new Map(tensors.map((tensor) => [tensor.name, tensor]));
  await writeGguf(
    path,
    await entriesOf(preset, encoding, vocabulary, llamaSource, recipe),
    tensors,
    function* ({ name }) {
      const { weights, encoding: own } = byName.get(name)!;
      for (const rows of randomRows(weights)) yield encode(own, rows);
    },
  );
}

async function entriesOf(
  preset: Preset,
  encoding: Encoding,
  vocabulary: Vocabulary,
  llamaSource: string,
  recipe: string,
): Promise<Entry[]> {
  const { architecture, pooling } = preset;
  return [
    entry.string('general.architecture', architecture),
    entry.string('svc.recipe', recipe),
    entry.string('general.type', 'model'),
    entry.string('general.name', preset.name),
    entry.string('general.description', preset.description),
    entry.string('general.license', 'MIT'),
    entry.uint32('general.file_type', FILE_TYPE_NUMBER[encoding]),
    entry.uint32('general.quantization_version', 2),
    entry.uint32(`${architecture}.context_length`, preset.contextLength),
    entry.uint32(`${architecture}.embedding_length`, preset.embeddingLength),
    entry.uint32(`${architecture}.block_count`, preset.layers),
    entry.uint32(`${architecture}.feed_forward_length`, preset.feedForwardLength),
    entry.uint32(`${architecture}.attention.head_count`, preset.heads),
    entry.uint32(`${architecture}.vocab_size`, vocabulary.size),
    ...architectureEntries(preset),
    ...(pooling === undefined ? [] : [entry.uint32(`${architecture}.pooling_type`, POOLING_TYPE[pooling])]),
    ...(await tokenizerEntries(preset, vocabulary, llamaSource)),
  ];
}

function architectureEntries(preset: Preset): Entry[] {
  if (preset.architecture === 'bert') return bertEntries(preset);
  if (preset.architecture === 'mamba') return mambaEntries(preset);
  return decoderEntries(preset);
}

function decoderEntries(preset: Preset): Entry[] {
  const { architecture, convolutions, slidingWindow } = preset;
  const heads = Array.from({ length: preset.layers }, (_, layer) =>
    convolutions?.includes(layer) === true ? 0 : preset.keyValueHeads,
  );
  return [
    ...(architecture === 'lfm2'
      ? [entry.uint32s(`${architecture}.attention.head_count_kv`, heads), ...shortConvolutionEntries(preset)]
      : [entry.uint32(`${architecture}.attention.head_count_kv`, preset.keyValueHeads)]),
    ...(architecture === 'qwen35' ? deltaNetEntries(preset) : []),
    ...(architecture === 'qwen3' ? [entry.strings('qwen3.classifier.output_labels', ['yes', 'no'])] : []),
    ...(preset.experts === undefined ? [] : expertEntries(preset)),
    ...(slidingWindow === undefined ? [] : [entry.uint32(`${architecture}.attention.sliding_window`, slidingWindow)]),
    ...(architecture === 'qwen2vl' ? [entry.uint32s('qwen2vl.rope.dimension_sections', [4, 6, 6, 0])] : []),
    ...(architecture === 'gemma3' ? [entry.uint32('gemma3.attention.sliding_window_pattern', 3)] : []),
    entry.uint32(`${architecture}.attention.key_length`, preset.headLength),
    entry.uint32(`${architecture}.attention.value_length`, preset.headLength),
    entry.float32(`${architecture}.attention.layer_norm_rms_epsilon`, preset.normEpsilon),
    entry.uint32(`${architecture}.rope.dimension_count`, preset.headLength),
    entry.float32(`${architecture}.rope.freq_base`, preset.ropeBase),
  ];
}

async function tokenizerEntries(
  { template, pooling, rankTemplate, endOfSequence }: Preset,
  vocabulary: Vocabulary,
  llamaSource: string,
): Promise<Entry[]> {
  const entries: Entry[] = [];
  const leftOut = new Set(['tokenizer.ggml.eos_token_id', 'tokenizer.chat_template']);
  const end = endOfSequence ?? vocabulary.endOfSequence;
  if (end !== null) entries.push(entry.uint32('tokenizer.ggml.eos_token_id', end));
  if (pooling === 'last') {
    // The pooled last token is then always the end token.
    leftOut.add('tokenizer.ggml.add_eos_token');
    entries.push(entry.bool('tokenizer.ggml.add_eos_token', true));
  }
  if (rankTemplate !== undefined) entries.push(entry.string('tokenizer.chat_template.rerank', rankTemplate));
  if (template !== null) {
    const text =
      'text' in template
        ? template.text
        : await readFile(join(llamaSource, 'models', 'templates', template.file), 'utf8');
    entries.push(entry.string('tokenizer.chat_template', text));
  }
  return [...vocabulary.entries(leftOut), ...entries];
}

/** Standard deviations of the residual stream's parts. */
interface Scales {
  /** Deviation of a layer's feed-forward output. */
  readonly added: number;
  /** Deviation of a layer's attention output. */
  readonly mixed: number;
}

function decoderTensors(preset: Preset, encoding: Encoding, vocabulary: Vocabulary): Tensor[] {
  const { architecture, embeddingLength: width, layers } = preset;
  const embedding = LOGIT_DEVIATION * perRoot(width);
  // Gemma multiplies its input embeddings by the root of the width.
  const stream = architecture.startsWith('gemma') ? embedding * Math.sqrt(width) : embedding;
  const added = (2 * stream * Math.sqrt(width)) / Math.sqrt(2 * layers);
  const scales: Scales = { added, mixed: added * Math.sqrt(2 / layers) };

  const tokens = matrices(encoding)('token_embd.weight', width, vocabulary.size, embedding);
  const rowScale = textOnly(vocabulary, SILENT_ROW_SCALE);
  const tensors = [
    { ...tokens, weights: { ...tokens.weights, rowScale } },
    vector(architecture === 'lfm2' ? 'token_embd_norm.weight' : 'output_norm.weight', width, 1, 0.1),
  ];
  if (architecture === 'qwen3') tensors.push(matrices('F32')('cls.output.weight', width, 2, 2 * perRoot(width)));
  // The only architecture here whose output matrix cannot be the embeddings; the same seed makes it equal to them.
  if (architecture === 'gpt-oss') tensors.push({ ...(tensors[0] as Tensor), name: 'output.weight' });
  for (let layer = 0; layer < layers; layer += 1) {
    const block = `blk.${layer}`;
    if (architecture === 'mamba') tensors.push(...mambaTensors(preset, block, added));
    else tensors.push(...layerTensors(preset, encoding, layer, scales));
  }
  return tensors;
}

function layerTensors(preset: Preset, encoding: Encoding, layer: number, { added, mixed }: Scales): Tensor[] {
  const { architecture, embeddingLength: width, feedForwardLength: forward } = preset;
  const block = `blk.${layer}`;
  const matrix = matrices(encoding);
  const tensors = [vector(`${block}.attn_norm.weight`, width, 1, 0.1)];
  if (preset.convolutions?.includes(layer) !== true) tensors.push(...attentionTensors(preset, encoding, block, mixed));
  else if (architecture === 'qwen35') tensors.push(...deltaNetTensors(preset, block, mixed));
  else tensors.push(...shortConvolutionTensors(preset, block, mixed));
  if (preset.experts === undefined) {
    tensors.push(
      matrix(`${block}.ffn_gate.weight`, width, forward, perRoot(width)),
      matrix(`${block}.ffn_up.weight`, width, forward, perRoot(width)),
      matrix(`${block}.ffn_down.weight`, forward, width, (added * perRoot(forward)) / GATED_RMS),
    );
  } else {
    tensors.push(...expertTensors(preset, block, (added * perRoot(forward)) / GATED_RMS));
  }
  // Before the feed-forward part.
  const normedAfterAttention = architecture === 'gpt-oss' || architecture === 'qwen35';
  tensors.push(vector(`${block}.${normedAfterAttention ? 'post_attention_norm' : 'ffn_norm'}.weight`, width, 1, 0.1));
  if (architecture === 'gemma2' || architecture === 'gemma3') {
    tensors.push(
      vector(`${block}.post_attention_norm.weight`, width, mixed, 0.1 * mixed),
      vector(`${block}.post_ffw_norm.weight`, width, added, 0.1 * added),
    );
  }
  return tensors;
}

function attentionTensors(preset: Preset, encoding: Encoding, block: string, mixed: number): Tensor[] {
  const { architecture, embeddingLength: width, headLength } = preset;
  const queryWidth = preset.heads * headLength;
  const keyWidth = preset.keyValueHeads * headLength;
  const matrix = matrices(encoding);
  // Qwen 3.5 computes a gate for each number of a head's output together with its query.
  const [gated, value] = architecture === 'qwen35' ? [2, MIXED_VALUE_RMS / 2] : [1, MIXED_VALUE_RMS];
  const tensors = [
    matrix(`${block}.attn_q.weight`, width, gated * queryWidth, QUERY_KEY_DEVIATION * perRoot(width)),
    matrix(`${block}.attn_k.weight`, width, keyWidth, QUERY_KEY_DEVIATION * perRoot(width)),
    matrix(`${block}.attn_v.weight`, width, keyWidth, perRoot(width)),
    matrix(`${block}.attn_output.weight`, queryWidth, width, (mixed * perRoot(queryWidth)) / value),
  ];
  if (['qwen3', 'lfm2', 'gemma3', 'qwen35'].includes(architecture)) {
    tensors.push(
      vector(`${block}.attn_q_norm.weight`, headLength, QUERY_KEY_DEVIATION, 0.1),
      vector(`${block}.attn_k_norm.weight`, headLength, QUERY_KEY_DEVIATION, 0.1),
    );
  }
  if (architecture === 'qwen2' || architecture === 'qwen2vl' || architecture === 'gpt-oss') {
    tensors.push(
      vector(`${block}.attn_q.bias`, queryWidth, 0, 0.2),
      vector(`${block}.attn_k.bias`, keyWidth, 0, 0.2),
      vector(`${block}.attn_v.bias`, keyWidth, 0, 0.2),
    );
  }
  if (architecture === 'gpt-oss') {
    tensors.push(
      vector(`${block}.attn_output.bias`, width, 0, 0.1 * mixed),
      vector(`${block}.attn_sinks.weight`, preset.heads, 0, 1),
    );
  }
  return tensors;
}
