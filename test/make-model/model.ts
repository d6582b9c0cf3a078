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
import { mambaEntries, mambaTensors, shortConvolutionEntries, shortConvolutionTensors } from './recurrent.ts';
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
const POOLING_TYPE = { mean: 1, last: 3 } as const;

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
    ...(convolutions === undefined
      ? [entry.uint32(`${architecture}.attention.head_count_kv`, preset.keyValueHeads)]
      : [entry.uint32s(`${architecture}.attention.head_count_kv`, heads), ...shortConvolutionEntries(preset)]),
    ...(slidingWindow === undefined ? [] : [entry.uint32(`${architecture}.attention.sliding_window`, slidingWindow)]),
    entry.uint32(`${architecture}.attention.key_length`, preset.headLength),
    entry.uint32(`${architecture}.attention.value_length`, preset.headLength),
    entry.float32(`${architecture}.attention.layer_norm_rms_epsilon`, preset.normEpsilon),
    entry.uint32(`${architecture}.rope.dimension_count`, preset.headLength),
    entry.float32(`${architecture}.rope.freq_base`, preset.ropeBase),
  ];
}

async function tokenizerEntries(
  { template, pooling, endOfSequence }: Preset,
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
  if (template !== null) {
    const text =
      'text' in template
        ? template.text
        : await readFile(join(llamaSource, 'models', 'templates', template.file), 'utf8');
    entries.push(entry.string('tokenizer.chat_template', text));
  }
  return [...vocabulary.entries(leftOut), ...entries];
}

function decoderTensors(preset: Preset, encoding: Encoding, vocabulary: Vocabulary): Tensor[] {
  const width = preset.embeddingLength;
  const queryWidth = preset.heads * preset.headLength;
  const keyWidth = preset.keyValueHeads * preset.headLength;

  const embedding = LOGIT_DEVIATION * perRoot(width);
  // Gemma multiplies its input embeddings by the root of the width.
  const stream = preset.architecture.startsWith('gemma') ? embedding * Math.sqrt(width) : embedding;
  const added = (2 * stream * Math.sqrt(width)) / Math.sqrt(2 * preset.layers);
  const mixed = added * Math.sqrt(2 / preset.layers);

  const matrix = matrices(encoding);
  const tokens = matrix('token_embd.weight', width, vocabulary.size, embedding);
  const tensors = [
    { ...tokens, weights: { ...tokens.weights, rowScale: textOnly(vocabulary, SILENT_ROW_SCALE) } },
    vector(preset.architecture === 'lfm2' ? 'token_embd_norm.weight' : 'output_norm.weight', width, 1, 0.1),
  ];
  for (let layer = 0; layer < preset.layers; layer += 1) {
    const block = `blk.${layer}`;
    const forward = preset.feedForwardLength;
    if (preset.architecture === 'mamba') {
      tensors.push(...mambaTensors(preset, block, added));
      continue;
    }
    tensors.push(
      vector(`${block}.attn_norm.weight`, width, 1, 0.1),
      ...(preset.convolutions?.includes(layer) === true
        ? shortConvolutionTensors(preset, block, mixed)
        : [
            matrix(`${block}.attn_q.weight`, width, queryWidth, QUERY_KEY_DEVIATION * perRoot(width)),
            matrix(`${block}.attn_k.weight`, width, keyWidth, QUERY_KEY_DEVIATION * perRoot(width)),
            matrix(`${block}.attn_v.weight`, width, keyWidth, perRoot(width)),
            matrix(`${block}.attn_output.weight`, queryWidth, width, (mixed * perRoot(queryWidth)) / MIXED_VALUE_RMS),
          ]),
      vector(`${block}.ffn_norm.weight`, width, 1, 0.1),
      matrix(`${block}.ffn_gate.weight`, width, forward, perRoot(width)),
      matrix(`${block}.ffn_up.weight`, width, forward, perRoot(width)),
      matrix(`${block}.ffn_down.weight`, forward, width, (added * perRoot(forward)) / GATED_RMS),
    );
    if (preset.architecture === 'gemma2') {
      tensors.push(
        vector(`${block}.post_attention_norm.weight`, width, mixed, 0.1 * mixed),
        vector(`${block}.post_ffw_norm.weight`, width, added, 0.1 * added),
      );
    }
    if (preset.architecture === 'lfm2' && preset.convolutions?.includes(layer) !== true) {
      tensors.push(
        vector(`${block}.attn_q_norm.weight`, preset.headLength, QUERY_KEY_DEVIATION, 0.1),
        vector(`${block}.attn_k_norm.weight`, preset.headLength, QUERY_KEY_DEVIATION, 0.1),
      );
    }
    if (preset.architecture === 'qwen2') {
      tensors.push(
        vector(`${block}.attn_q.bias`, queryWidth, 0, 0.2),
        vector(`${block}.attn_k.bias`, keyWidth, 0, 0.2),
        vector(`${block}.attn_v.bias`, keyWidth, 0, 0.2),
      );
    }
  }
  return tensors;
}
