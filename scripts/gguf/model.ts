/**
 * One synthetic model: metadata and tensors of a decoder with RMSNorm, gated feed-forward and tied
 * embeddings, in the shape of a preset.
 *
 * The scales of the weights make the text worth testing with:
 * - Embeddings are such that logits have a standard deviation of 2.5: the best token stands clear of
 *   the second, far beyond rounding, and sampling at temperature 0.8 still has a choice.
 * - What the layers add outweighs the token's own embedding by twice the root of the width. With tied
 *   embeddings a token would otherwise mostly predict itself, and greedy text would be one word.
 * - Queries and keys are large enough for attention to prefer some positions, so that the next token
 *   depends on the whole context and greedy text does not run in a short circle. The deeper the model,
 *   the smaller attention's share: mixing again and again would make all positions alike.
 * - Tokens that are not text (control, byte, unused) have small embeddings and so are never chosen.
 */
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { Preset } from './presets.ts';
import { encode, FILE_TYPE_NUMBER, type Encoding } from './quantize.ts';
import { randomRows, type RandomRows } from './random.ts';
import { readVocabulary, TOKEN_TYPE, type Vocabulary } from './vocabulary.ts';
import { entry, writeGguf, type Entry, type TensorPlan } from './writer.ts';

const LOGIT_DEVIATION = 2.5;
const QUERY_KEY_DEVIATION = 1.5;
/** Of silu(gate) * up, both standard normal; of an attention's mixture of values. */
const GATED_RMS = 0.6;
const MIXED_VALUE_RMS = 0.25;
const SILENT_ROW_SCALE = 0.05;

interface Tensor extends TensorPlan {
  readonly weights: RandomRows;
}

/** @param recipe stands in the file, so that a later call can tell whether the file is still right */
export async function writeModel(
  path: string,
  preset: Preset,
  encoding: Encoding,
  llamaSource: string,
  recipe: string,
): Promise<void> {
  const vocabulary = await readVocabulary(llamaSource, preset.vocabulary);
  const tensors = tensorsOf(preset, encoding, vocabulary);
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
  const { architecture, template } = preset;
  const templateText =
    'text' in template
      ? template.text
      : await readFile(join(llamaSource, 'models', 'templates', template.file), 'utf8');
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
    entry.uint32(`${architecture}.attention.head_count_kv`, preset.keyValueHeads),
    entry.uint32(`${architecture}.attention.key_length`, preset.headLength),
    entry.uint32(`${architecture}.attention.value_length`, preset.headLength),
    entry.float32(`${architecture}.attention.layer_norm_rms_epsilon`, preset.normEpsilon),
    entry.uint32(`${architecture}.rope.dimension_count`, preset.headLength),
    entry.float32(`${architecture}.rope.freq_base`, preset.ropeBase),
    entry.uint32(`${architecture}.vocab_size`, vocabulary.size),
    ...vocabulary.entries(new Set(['tokenizer.ggml.eos_token_id', 'tokenizer.chat_template'])),
    entry.uint32('tokenizer.ggml.eos_token_id', preset.endOfSequence ?? vocabulary.endOfSequence),
    entry.string('tokenizer.chat_template', templateText),
  ];
}

function tensorsOf(preset: Preset, encoding: Encoding, vocabulary: Vocabulary): Tensor[] {
  const width = preset.embeddingLength;
  const queryWidth = preset.heads * preset.headLength;
  const keyWidth = preset.keyValueHeads * preset.headLength;
  const perRoot = (length: number): number => 1 / Math.sqrt(length);

  const embedding = LOGIT_DEVIATION * perRoot(width);
  // Gemma multiplies its input embeddings by the root of the width.
  const stream = preset.architecture === 'gemma' ? embedding * Math.sqrt(width) : embedding;
  const added = (2 * stream * Math.sqrt(width)) / Math.sqrt(2 * preset.layers);
  const mixed = added * Math.sqrt(2 / preset.layers);

  const matrix = (name: string, inputs: number, outputs: number, deviation: number): Tensor => ({
    name,
    shape: [inputs, outputs],
    encoding,
    weights: { name, rows: outputs, rowLength: inputs, mean: 0, deviation },
  });
  // llama.cpp wants vectors in F32 whatever the matrices are.
  const vector = (name: string, length: number, mean: number, deviation: number): Tensor => ({
    name,
    shape: [length],
    encoding: 'F32',
    weights: { name, rows: 1, rowLength: length, mean, deviation },
  });

  const tokens = matrix('token_embd.weight', width, vocabulary.size, embedding);
  const tensors = [
    { ...tokens, weights: { ...tokens.weights, rowScale: tokenScale(vocabulary) } },
    vector('output_norm.weight', width, 1, 0.1),
  ];
  for (let layer = 0; layer < preset.layers; layer += 1) {
    const block = `blk.${layer}`;
    const forward = preset.feedForwardLength;
    tensors.push(
      vector(`${block}.attn_norm.weight`, width, 1, 0.1),
      matrix(`${block}.attn_q.weight`, width, queryWidth, QUERY_KEY_DEVIATION * perRoot(width)),
      matrix(`${block}.attn_k.weight`, width, keyWidth, QUERY_KEY_DEVIATION * perRoot(width)),
      matrix(`${block}.attn_v.weight`, width, keyWidth, perRoot(width)),
      matrix(`${block}.attn_output.weight`, queryWidth, width, (mixed * perRoot(queryWidth)) / MIXED_VALUE_RMS),
      vector(`${block}.ffn_norm.weight`, width, 1, 0.1),
      matrix(`${block}.ffn_gate.weight`, width, forward, perRoot(width)),
      matrix(`${block}.ffn_up.weight`, width, forward, perRoot(width)),
      matrix(`${block}.ffn_down.weight`, forward, width, (added * perRoot(forward)) / GATED_RMS),
    );
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

function tokenScale(vocabulary: Vocabulary): (token: number) => number {
  return (token) => (vocabulary.types[token] === TOKEN_TYPE.normal ? 1 : SILENT_ROW_SCALE);
}
