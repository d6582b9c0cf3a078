/** Requests for both engines: each prompt and chat with each sampling. */
import type { NativeRequest } from '../../src/engine/addon.ts';

export type Sampling = Omit<NativeRequest, 'id' | 'messages' | 'prompt' | 'maxTokens'>;
export type Question = Required<Pick<NativeRequest, 'prompt'>> | Required<Pick<NativeRequest, 'messages'>>;

export const SAMPLINGS: Readonly<Record<string, Sampling>> = {
  greedy: { temperature: 0 },
  'seed 1': { temperature: 0.8, seed: 1 },
  'seed 42, hot': { temperature: 1.5, seed: 42 },
  'top-k 5': { temperature: 0.8, seed: 2, topK: 5 },
  'top-k off': { temperature: 0.8, seed: 3, topK: 0 },
  'top-p 0.5': { temperature: 0.8, seed: 4, topP: 0.5 },
  'min-p 0.3': { temperature: 0.8, seed: 5, minP: 0.3 },
  'filters off': { temperature: 0.8, seed: 6, topK: 0, topP: 1, minP: 0 },
  'repeat penalty': { temperature: 0.8, seed: 7, repeatPenalty: 1.3 },
  'other penalties': { temperature: 0.8, seed: 8, frequencyPenalty: 0.7, presencePenalty: 1.1 },
  'greedy, penalised': { temperature: 0, repeatPenalty: 1.2, frequencyPenalty: 0.5 },
  'logit bias': {
    temperature: 0.8,
    seed: 9,
    logitBias: [
      [1000, 8],
      [2000, 6],
      [5, -100],
    ],
  },
  // With logprobs each token is sampled; otherwise tokens without alternative would skip sampling.
  grammar: { temperature: 0.8, seed: 11, grammar: 'root ::= ("- " [a-z ]{2,12} "\\n")+', logprobs: 0 },
  'stop strings': { temperature: 0.8, seed: 10, stop: ['e', '。', 'ing '] },
};

/** Questions; the last is longer than a physical batch of 512 tokens. */
export const QUESTIONS: readonly Question[] = [
  { prompt: 'Hello, how are you?' },
  { prompt: 'def fibonacci(n: int) -> int:\n    """The n-th number."""\n    return' },
  { prompt: 'Grüße aus Köln! 你好，世界。 Привет 👩‍👩‍👧‍👦 ' },
  { prompt: 'x' },
  { prompt: '<|im_start|>user\nhi</s><|im_end|>\n' },
  { prompt: Array.from({ length: 120 }, (_, index) => `Line ${index}: the quick brown fox.`).join('\n') },
  { messages: [{ role: 'user', content: 'Why is the sky blue?' }] },
  {
    messages: [
      { role: 'system', content: 'You are brief.' },
      { role: 'user', content: 'Name a colour.' },
      { role: 'assistant', content: 'Blue.' },
      { role: 'user', content: 'Another one, please: 🎨' },
    ],
  },
];

export interface Answer {
  readonly text: string;
  readonly finish: string;
  readonly inputTokens: number;
  readonly outputTokens: number;
}
