/** Presets of synthetic models: real shapes for benchmarks, tiny ones for tests. */
import type { Encoding } from './quantize.ts';

export interface Preset {
  readonly name: string;
  readonly description: string;
  readonly architecture:
    | 'llama'
    | 'qwen2'
    | 'qwen2vl'
    | 'qwen3'
    | 'gemma'
    | 'gemma2'
    | 'gemma3'
    | 'bert'
    | 'mamba'
    | 'lfm2'
    | 'gpt-oss'
    | 'qwen35';
  /** Vocabulary `models/ggml-vocab-<this>.gguf` of llama.cpp's tree. */
  readonly vocabulary: string;
  /** Jinja text, or a file in `models/templates` of llama.cpp's tree; null for a model without chat. */
  readonly template: { readonly text: string } | { readonly file: string } | null;
  /** Pooling of token vectors; absent if the model generates text. `rank`: a classifier head makes a score of them. */
  readonly pooling?: 'mean' | 'last' | 'rank';
  /** Prompt with `{query}` and `{document}`, of a model that ranks. */
  readonly rankTemplate?: string;
  /** Overrides the end token if that of the vocabulary belongs to the base model. */
  readonly endOfSequence?: number;
  readonly encoding: Encoding;
  readonly contextLength: number;
  readonly embeddingLength: number;
  readonly layers: number;
  readonly heads: number;
  readonly keyValueHeads: number;
  readonly headLength: number;
  readonly feedForwardLength: number;
  readonly ropeBase: number;
  /**
   * Attention window, in tokens; absent for full attention. gemma3: of two layers in three; otherwise of every second.
   */
  readonly slidingWindow?: number;
  /** Layers with a short convolution (lfm2) or a gated delta net (qwen35) instead of attention. */
  readonly convolutions?: readonly number[];
  /** Experts of each layer; one of two is used for a token. */
  readonly experts?: number;
  readonly normEpsilon: number;
}

const RANDOM = 'Random weights from a fixed seed: what it writes has no meaning.';
const ZEPHYR_TEMPLATE = {
  text: `{% for message in messages %}{{ '<|' + message['role'] + '|>\\n' + message['content'] + eos_token + '\\n' }}{% endfor %}{% if add_generation_prompt %}{{ '<|assistant|>\\n' }}{% endif %}`,
};
const QWEN_TEMPLATE = { file: 'Qwen-Qwen2.5-7B-Instruct.jinja' };
const QWEN_IM_END = 151_645;

const tinyLlama: Preset = {
  name: 'svc tiny-llama (random weights)',
  description: `For tests. ${RANDOM}`,
  architecture: 'llama',
  vocabulary: 'llama-spm',
  template: ZEPHYR_TEMPLATE,
  encoding: 'Q8_0',
  contextLength: 8192,
  embeddingLength: 128,
  layers: 2,
  heads: 2,
  keyValueHeads: 1,
  headLength: 64,
  feedForwardLength: 384,
  ropeBase: 10_000,
  normEpsilon: 1e-5,
};

const tinyQwen2: Preset = {
  name: 'svc tiny-qwen2 (random weights)',
  description: `For tests. ${RANDOM}`,
  architecture: 'qwen2',
  vocabulary: 'qwen2',
  template: QWEN_TEMPLATE,
  endOfSequence: QWEN_IM_END,
  encoding: 'Q4_0',
  contextLength: 8192,
  embeddingLength: 64,
  layers: 2,
  heads: 2,
  keyValueHeads: 1,
  headLength: 32,
  feedForwardLength: 192,
  ropeBase: 1_000_000,
  normEpsilon: 1e-6,
};

const tinyBert: Preset = {
  name: 'svc tiny-bert (random weights)',
  description: `For tests. ${RANDOM}`,
  architecture: 'bert',
  vocabulary: 'bert-bge',
  template: null,
  pooling: 'mean',
  encoding: 'Q8_0',
  contextLength: 512,
  embeddingLength: 64,
  layers: 2,
  heads: 2,
  keyValueHeads: 2,
  headLength: 32,
  feedForwardLength: 192,
  ropeBase: 0,
  normEpsilon: 1e-12,
};

const tinyGemma: Preset = {
  name: 'svc tiny-gemma (random weights)',
  description: `For tests. ${RANDOM}`,
  architecture: 'gemma',
  vocabulary: 'llama-spm',
  template: { file: 'google-gemma-2-2b-it.jinja' },
  encoding: 'F16',
  contextLength: 8192,
  embeddingLength: 64,
  layers: 2,
  heads: 2,
  keyValueHeads: 1,
  headLength: 32,
  feedForwardLength: 192,
  ropeBase: 10_000,
  normEpsilon: 1e-6,
};

const tinyQwen35: Preset = {
  name: 'svc tiny-qwen35 (random weights)',
  description: `For tests. ${RANDOM}`,
  architecture: 'qwen35',
  vocabulary: 'llama-spm',
  template: ZEPHYR_TEMPLATE,
  encoding: 'F16',
  contextLength: 32_768,
  embeddingLength: 64,
  layers: 4,
  heads: 2,
  keyValueHeads: 1,
  headLength: 32,
  feedForwardLength: 192,
  ropeBase: 1_000_000,
  convolutions: [0, 1, 2],
  normEpsilon: 1e-6,
};

const tinyLfm2: Preset = {
  name: 'svc tiny-lfm2 (random weights)',
  description: `For tests. ${RANDOM}`,
  architecture: 'lfm2',
  vocabulary: 'llama-spm',
  template: ZEPHYR_TEMPLATE,
  encoding: 'F16',
  contextLength: 8192,
  embeddingLength: 64,
  layers: 4,
  heads: 2,
  keyValueHeads: 1,
  headLength: 32,
  feedForwardLength: 192,
  ropeBase: 1_000_000,
  convolutions: [0, 2],
  normEpsilon: 1e-5,
};

/** So small that two cores compute 31,000 tokens in less than half a minute. */
const LONG_SHAPE = {
  encoding: 'Q4_0',
  contextLength: 131_072,
  embeddingLength: 256,
  heads: 4,
  keyValueHeads: 2,
  headLength: 64,
  feedForwardLength: 1024,
} as const satisfies Partial<Preset>;

export const PRESETS = {
  'tiny-llama': tinyLlama,
  'tiny-long': {
    ...tinyLlama,
    name: 'svc tiny-long (random weights)',
    description: `For tests of long contexts. ${RANDOM}`,
    contextLength: 131_072,
  },
  'tiny-qwen2': tinyQwen2,
  /** Calls tools, with a context that coding agents need: for the recording of the first hour. */
  'demo-coder': { ...tinyQwen2, name: 'svc demo-coder (random weights)', contextLength: 65_536 },
  /** With positions in three dimensions (M-RoPE), as in models that see. */
  'tiny-qwen2vl': { ...tinyQwen2, name: 'svc tiny-qwen2vl (random weights)', architecture: 'qwen2vl' },
  /** Its template opens the reasoning, and can leave it out. */
  'tiny-thinker': {
    ...tinyQwen2,
    name: 'svc tiny-thinker (random weights)',
    template: { file: 'Qwen3.5-4B.jinja' },
  },
  /** Its template writes each argument of a call apart, strings without quotes. */
  'tiny-glm': { ...tinyLlama, name: 'svc tiny-glm (random weights)', template: { file: 'GLM-4.6.jinja' } },
  /** Its template writes the arguments of a call in a notation of its own. */
  'tiny-gemma4': {
    ...tinyLlama,
    name: 'svc tiny-gemma4 (random weights)',
    template: { file: 'google-gemma-4-31B-it.jinja' },
  },
  'tiny-gemma': tinyGemma,
  /** Sliding-window attention in every second layer. */
  'tiny-gemma2': {
    ...tinyGemma,
    name: 'svc tiny-gemma2 (random weights)',
    architecture: 'gemma2',
    slidingWindow: 64,
  },
  /** Sliding-window attention in two layers of three. */
  'tiny-gemma3': {
    ...tinyGemma,
    name: 'svc tiny-gemma3 (random weights)',
    architecture: 'gemma3',
    contextLength: 32_768,
    layers: 3,
    slidingWindow: 64,
  },
  /** Sliding-window attention in every second layer, attention sinks, experts. */
  'tiny-gpt-oss': {
    name: 'svc tiny-gpt-oss (random weights)',
    description: `For tests. ${RANDOM}`,
    architecture: 'gpt-oss',
    vocabulary: 'llama-spm',
    template: ZEPHYR_TEMPLATE,
    encoding: 'F16',
    contextLength: 32_768,
    embeddingLength: 64,
    layers: 2,
    heads: 2,
    keyValueHeads: 1,
    headLength: 32,
    feedForwardLength: 192,
    ropeBase: 150_000,
    slidingWindow: 64,
    experts: 4,
    normEpsilon: 1e-5,
  },
  /** Gated delta nets, whose state is recurrent, and attention in every fourth layer. */
  'tiny-qwen35': tinyQwen35,
  /** Recurrent state instead of a KV cache. */
  'tiny-mamba': {
    name: 'svc tiny-mamba (random weights)',
    description: `For tests. ${RANDOM}`,
    architecture: 'mamba',
    vocabulary: 'llama-spm',
    template: ZEPHYR_TEMPLATE,
    encoding: 'F16',
    contextLength: 8192,
    embeddingLength: 64,
    layers: 2,
    heads: 0,
    keyValueHeads: 0,
    headLength: 0,
    feedForwardLength: 0,
    ropeBase: 0,
    normEpsilon: 1e-5,
  },
  /** Recurrent state and a KV cache. */
  'tiny-lfm2': tinyLfm2,
  /** Recurrent, and its vectors are those of the last token. */
  'tiny-lfm2-embed': { ...tinyLfm2, name: 'svc tiny-lfm2-embed (random weights)', template: null, pooling: 'last' },
  /** Bidirectional attention, as in most embedding models. */
  'tiny-bert': tinyBert,
  /** Causal attention, as in embedding models derived from text models. */
  'tiny-llama-embed': {
    ...tinyLlama,
    name: 'svc tiny-llama-embed (random weights)',
    template: null,
    pooling: 'last',
    contextLength: 2048,
  },
  /** A cross-encoder with a classifier head, as most rerankers. */
  'tiny-rank': { ...tinyBert, name: 'svc tiny-rank (random weights)', pooling: 'rank' },
  /** A reranker derived from a text model: it has a prompt of its own, and the first of its two classes is `yes`. */
  'tiny-rank-qwen3': {
    ...tinyQwen2,
    name: 'svc tiny-rank-qwen3 (random weights)',
    architecture: 'qwen3',
    template: null,
    pooling: 'rank',
    rankTemplate:
      '<|im_start|>system\nDoes the document answer the query?<|im_end|>\n' +
      '<|im_start|>user\n<Query>: {query}\n<Document>: {document}<|im_end|>\n<|im_start|>assistant\n',
    contextLength: 2048,
  },
  'minilm-l6': {
    name: 'MiniLM L6 shape (random weights)',
    description: `For measuring. ${RANDOM}`,
    architecture: 'bert',
    vocabulary: 'bert-bge',
    template: null,
    pooling: 'mean',
    encoding: 'F16',
    contextLength: 512,
    embeddingLength: 384,
    layers: 6,
    heads: 12,
    keyValueHeads: 12,
    headLength: 32,
    feedForwardLength: 1536,
    ropeBase: 0,
    normEpsilon: 1e-12,
  },
  /** Little to compute, and a KV cache as large as that of a 1B model: 32 KiB for each token. */
  'large-cache': {
    ...tinyLlama,
    name: 'svc large-cache (random weights)',
    description: `For measuring memory. ${RANDOM}`,
    contextLength: 131_072,
    layers: 8,
    heads: 8,
    keyValueHeads: 8,
    headLength: 128,
  },
  'qwen2.5-0.5b': {
    name: 'Qwen2.5 0.5B shape (random weights)',
    description: `For measuring. ${RANDOM}`,
    architecture: 'qwen2',
    vocabulary: 'qwen2',
    template: QWEN_TEMPLATE,
    endOfSequence: QWEN_IM_END,
    encoding: 'Q4_0',
    contextLength: 32_768,
    embeddingLength: 896,
    layers: 24,
    heads: 14,
    keyValueHeads: 2,
    headLength: 64,
    feedForwardLength: 4864,
    ropeBase: 1_000_000,
    normEpsilon: 1e-6,
  },
  'qwen3-embedding-0.6b': {
    name: 'Qwen3 Embedding 0.6B shape (random weights)',
    description: `For measuring. ${RANDOM}`,
    architecture: 'qwen3',
    vocabulary: 'qwen2',
    template: null,
    pooling: 'last',
    encoding: 'Q8_0',
    contextLength: 32_768,
    embeddingLength: 1024,
    layers: 28,
    heads: 16,
    keyValueHeads: 8,
    headLength: 128,
    feedForwardLength: 3072,
    ropeBase: 1_000_000,
    normEpsilon: 1e-6,
  },
  /** For prompts of 31,000 tokens: each family of memory, with few layers. */
  'long-plain': {
    ...tinyQwen2,
    name: 'svc long-plain (random weights)',
    description: `For measuring long prompts. ${RANDOM}`,
    ...LONG_SHAPE,
    layers: 4,
  },
  /** Two layers of six see the whole prompt. */
  'long-window': {
    ...tinyGemma,
    name: 'svc long-window (random weights)',
    description: `For measuring long prompts. ${RANDOM}`,
    ...LONG_SHAPE,
    architecture: 'gemma3',
    layers: 6,
    slidingWindow: 512,
  },
  /** The same with 20 KiB of F16 cache for each token in those two: a state of 31,000 tokens takes 635 MB. */
  'long-state': {
    ...tinyGemma,
    name: 'svc long-state (random weights)',
    description: `For measuring large states. ${RANDOM}`,
    ...LONG_SHAPE,
    architecture: 'gemma3',
    layers: 6,
    heads: 10,
    keyValueHeads: 10,
    headLength: 256,
    slidingWindow: 512,
  },
  /** Two layers of eight have attention, the others a recurrent state. */
  'long-hybrid': {
    ...tinyQwen35,
    name: 'svc long-hybrid (random weights)',
    description: `For measuring long prompts. ${RANDOM}`,
    ...LONG_SHAPE,
    layers: 8,
    convolutions: [0, 1, 2, 4, 5, 6],
  },
  'llama-3.2-1b': {
    name: 'Llama 3.2 1B shape (random weights)',
    description: `For measuring. ${RANDOM}`,
    architecture: 'llama',
    vocabulary: 'llama-bpe',
    template: { file: 'meta-llama-Llama-3.2-3B-Instruct.jinja' },
    endOfSequence: 128_009,
    encoding: 'Q4_0',
    contextLength: 131_072,
    embeddingLength: 2048,
    layers: 16,
    heads: 32,
    keyValueHeads: 8,
    headLength: 64,
    feedForwardLength: 8192,
    ropeBase: 500_000,
    normEpsilon: 1e-5,
  },
} as const satisfies Record<string, Preset>;

export type PresetName = keyof typeof PRESETS;

/** Presets that `make-model.ts tests` makes. */
export const TEST_PRESETS = (Object.keys(PRESETS) as PresetName[]).filter((name) => name.startsWith('tiny-'));
