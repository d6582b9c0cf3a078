/**
 * Models whose state cannot be truncated: Mamba, which has one state per sequence and no per-token cells, and LFM2 and
 * Qwen 3.5, which have layers of both kinds.
 */
import type { Preset } from './presets.ts';
import { matrices, perRoot, vector, type Tensor } from './tensors.ts';
import { entry, type Entry } from './writer.ts';

const KERNEL = 4;
const STATE = 16;
const TIME_STEP_RANK = 32;
const SHORT_KERNEL = 3;
/** RMS of silu(x) for standard normal x. */
const SILU_RMS = 0.6;

/** The only inner width that llama.cpp supports. */
const innerWidth = ({ embeddingLength }: Preset): number => 2 * embeddingLength;

export function mambaEntries(preset: Preset): Entry[] {
  return [
    entry.uint32('mamba.ssm.conv_kernel', KERNEL),
    entry.uint32('mamba.ssm.inner_size', innerWidth(preset)),
    entry.uint32('mamba.ssm.state_size', STATE),
    entry.uint32('mamba.ssm.time_step_rank', TIME_STEP_RANK),
    entry.float32('mamba.attention.layer_norm_rms_epsilon', preset.normEpsilon),
  ];
}

/** @param added standard deviation of the layer's output */
export function mambaTensors(preset: Preset, block: string, added: number): Tensor[] {
  const width = preset.embeddingLength;
  const inner = innerWidth(preset);
  const matrix = matrices(preset.encoding);
  const exact = matrices('F32');
  const decay = exact(`${block}.ssm_a`, STATE, inner, 0.2);
  return [
    vector(`${block}.attn_norm.weight`, width, 1, 0.1),
    matrix(`${block}.ssm_in.weight`, width, 2 * inner, perRoot(width)),
    exact(`${block}.ssm_conv1d.weight`, KERNEL, inner, perRoot(KERNEL)),
    vector(`${block}.ssm_conv1d.bias`, inner, 0, 0.1),
    matrix(`${block}.ssm_x.weight`, inner, TIME_STEP_RANK + 2 * STATE, perRoot(inner) / SILU_RMS),
    matrix(`${block}.ssm_dt.weight`, TIME_STEP_RANK, inner, perRoot(TIME_STEP_RANK)),
    vector(`${block}.ssm_dt.bias`, inner, -2, 0.1),
    { ...decay, weights: { ...decay.weights, mean: -1 } },
    vector(`${block}.ssm_d`, inner, 1, 0.1),
    matrix(`${block}.ssm_out.weight`, inner, width, (added * perRoot(inner)) / SILU_RMS),
  ];
}

export function shortConvolutionEntries({ architecture }: Preset): Entry[] {
  return [entry.uint32(`${architecture}.shortconv.l_cache`, SHORT_KERNEL)];
}

/** Tensors of a short convolution that replaces attention. @param mixed standard deviation of its output */
export function shortConvolutionTensors(preset: Preset, block: string, mixed: number): Tensor[] {
  const width = preset.embeddingLength;
  const matrix = matrices(preset.encoding);
  return [
    matrices('F32')(`${block}.shortconv.conv.weight`, SHORT_KERNEL, width, perRoot(SHORT_KERNEL)),
    matrix(`${block}.shortconv.in_proj.weight`, width, 3 * width, perRoot(width)),
    matrix(`${block}.shortconv.out_proj.weight`, width, width, mixed * perRoot(width)),
  ];
}

const DELTA_HEADS = 2;
const DELTA_STATE = 32;
const DELTA_WIDTH = DELTA_HEADS * DELTA_STATE;

export function deltaNetEntries({ architecture, headLength }: Preset): Entry[] {
  const third = Math.floor(headLength / 6);
  return [
    entry.uint32(`${architecture}.ssm.conv_kernel`, KERNEL),
    entry.uint32(`${architecture}.ssm.inner_size`, DELTA_WIDTH),
    entry.uint32(`${architecture}.ssm.state_size`, DELTA_STATE),
    entry.uint32(`${architecture}.ssm.time_step_rank`, DELTA_HEADS),
    entry.uint32(`${architecture}.ssm.group_count`, DELTA_HEADS),
    // Shares of time, height and width in the rotated halves of a head.
    entry.uint32s(`${architecture}.rope.dimension_sections`, [headLength / 2 - 2 * third, third, third, 0]),
  ];
}

/** Tensors of a gated delta net that replaces attention. @param mixed standard deviation of its output */
export function deltaNetTensors(preset: Preset, block: string, mixed: number): Tensor[] {
  const width = preset.embeddingLength;
  const matrix = matrices(preset.encoding);
  return [
    matrix(`${block}.attn_qkv.weight`, width, 3 * DELTA_WIDTH, perRoot(width)),
    matrix(`${block}.attn_gate.weight`, width, DELTA_WIDTH, perRoot(width)),
    matrices('F32')(`${block}.ssm_conv1d.weight`, KERNEL, 3 * DELTA_WIDTH, perRoot(KERNEL)),
    vector(`${block}.ssm_dt.bias`, DELTA_HEADS, -2, 0.1),
    vector(`${block}.ssm_a`, DELTA_HEADS, -0.3, 0.05),
    matrix(`${block}.ssm_beta.weight`, width, DELTA_HEADS, perRoot(width)),
    matrix(`${block}.ssm_alpha.weight`, width, DELTA_HEADS, perRoot(width)),
    vector(`${block}.ssm_norm.weight`, DELTA_STATE, 1, 0.1),
    matrix(`${block}.ssm_out.weight`, DELTA_WIDTH, width, (mixed * perRoot(DELTA_WIDTH)) / SILU_RMS),
  ];
}
