/**
 * A BERT encoder: bidirectional attention, normalisation after each layer, learned positions. The outputs of
 * attention and feed-forward are as large as their residual inputs, so that the vector of a text depends on its words
 * and their order.
 */
import type { Preset } from './presets.ts';
import type { Encoding } from './quantize.ts';
import { matrices, perRoot, vector, type Tensor } from './tensors.ts';
import type { Vocabulary } from './vocabulary.ts';
import { entry, type Entry } from './writer.ts';

const QUERY_KEY_DEVIATION = 1.5;
const POSITION_DEVIATION = 0.5;
/** RMS of gelu(x) and of an attention output, for standard normal x and values. */
const GELU_RMS = 0.65;
const MIXED_VALUE_RMS = 0.25;

export function bertEntries({ normEpsilon }: Preset): Entry[] {
  return [entry.bool('bert.attention.causal', false), entry.float32('bert.attention.layer_norm_epsilon', normEpsilon)];
}

export function bertTensors(preset: Preset, encoding: Encoding, vocabulary: Vocabulary): Tensor[] {
  const { embeddingLength: width, feedForwardLength: forward } = preset;
  const matrix = matrices(encoding);
  const positions = matrix('position_embd.weight', width, preset.contextLength, POSITION_DEVIATION);
  const types = matrix('token_types.weight', width, 2, 0.1);
  const norm = (name: string): Tensor[] => [
    vector(`${name}.weight`, width, 1, 0.1),
    vector(`${name}.bias`, width, 0, 0.1),
  ];
  const layer = (name: string, inputs: number, outputs: number, deviation: number): Tensor[] => [
    matrix(`${name}.weight`, inputs, outputs, deviation * perRoot(inputs)),
    vector(`${name}.bias`, outputs, 0, 0.1),
  ];

  return [
    matrix('token_embd.weight', width, vocabulary.size, 1),
    { ...types, encoding: 'F32' },
    { ...positions, encoding: 'F32' },
    ...norm('token_embd_norm'),
    ...(preset.pooling === 'rank' ? [...layer('cls', width, width, 1), ...layer('cls.output', width, 1, 1)] : []),
    ...Array.from({ length: preset.layers }, (_, index) => {
      const block = `blk.${index}`;
      return [
        ...layer(`${block}.attn_q`, width, width, QUERY_KEY_DEVIATION),
        ...layer(`${block}.attn_k`, width, width, QUERY_KEY_DEVIATION),
        ...layer(`${block}.attn_v`, width, width, 1),
        ...layer(`${block}.attn_output`, width, width, 1 / MIXED_VALUE_RMS),
        ...norm(`${block}.attn_output_norm`),
        ...layer(`${block}.ffn_up`, width, forward, 1),
        ...layer(`${block}.ffn_down`, forward, width, 1 / GELU_RMS),
        ...norm(`${block}.layer_output_norm`),
      ];
    }).flat(),
  ];
}
