/** Mixtures of experts, as in gpt-oss: a router and, for each expert, a gated feed-forward part with biases. */
import type { Preset } from './presets.ts';
import { matrices, perRoot, vector, type Tensor } from './tensors.ts';
import { entry, type Entry } from './writer.ts';

export function expertEntries({ architecture, experts = 0, feedForwardLength }: Preset): Entry[] {
  return [
    entry.uint32(`${architecture}.expert_count`, experts),
    entry.uint32(`${architecture}.expert_used_count`, experts / 2),
    entry.uint32(`${architecture}.expert_feed_forward_length`, feedForwardLength),
  ];
}

/** @param down standard deviation of the weights that lead back to the residual stream */
export function expertTensors(preset: Preset, block: string, down: number): Tensor[] {
  const { embeddingLength: width, feedForwardLength: forward, experts = 0 } = preset;
  // The matrices of all experts, one after the other.
  const stacked = (name: string, inputs: number, outputs: number, deviation: number): Tensor => ({
    ...matrices(preset.encoding)(`${block}.${name}`, inputs, outputs * experts, deviation),
    shape: [inputs, outputs, experts],
  });
  const biases = (name: string, outputs: number, deviation: number): Tensor => ({
    ...vector(`${block}.${name}`, outputs * experts, 0, deviation),
    shape: [outputs, experts],
  });
  return [
    matrices('F32')(`${block}.ffn_gate_inp.weight`, width, experts, 2 * perRoot(width)),
    vector(`${block}.ffn_gate_inp.bias`, experts, 0, 0.1),
    stacked('ffn_gate_exps.weight', width, forward, perRoot(width)),
    stacked('ffn_up_exps.weight', width, forward, perRoot(width)),
    stacked('ffn_down_exps.weight', forward, width, down),
    biases('ffn_gate_exps.bias', forward, 0.1),
    biases('ffn_up_exps.bias', forward, 0.1),
    biases('ffn_down_exps.bias', width, 0.1 * down),
  ];
}
