/** Requests for both engines: each prompt and chat with each sampling. */
import type { EngineRequest } from '../../src/engine/addon.ts';

export type Sampling = Omit<EngineRequest, 'id' | 'messages' | 'prompt' | 'max_tokens'>;
export type Question = Required<Pick<EngineRequest, 'prompt'>> | Required<Pick<EngineRequest, 'messages'>>;

export const SAMPLINGS: Readonly<Record<string, Sampling>> = {
  greedy: { sampling: { temperature: 0 } },
  'seed 1': { sampling: { temperature: 0.8, seed: 1 } },
  'seed 42, hot': { sampling: { temperature: 1.5, seed: 42 } },
  'top-k 5': { sampling: { temperature: 0.8, seed: 2, top_k: 5 } },
  'top-k off': { sampling: { temperature: 0.8, seed: 3, top_k: 0 } },
  'top-p 0.5': { sampling: { temperature: 0.8, seed: 4, top_p: 0.5 } },
  'min-p 0.3': { sampling: { temperature: 0.8, seed: 5, min_p: 0.3 } },
  'filters off': { sampling: { temperature: 0.8, seed: 6, top_k: 0, top_p: 1, min_p: 0 } },
  'repeat penalty': { sampling: { temperature: 0.8, seed: 7, repeat_penalty: 1.3 } },
  'other penalties': { sampling: { temperature: 0.8, seed: 8, frequency_penalty: 0.7, presence_penalty: 1.1 } },
  'greedy, penalised': { sampling: { temperature: 0, repeat_penalty: 1.2, frequency_penalty: 0.5 } },
  'logit bias': {
    sampling: {
      temperature: 0.8,
      seed: 9,
      logit_bias: [
        [1000, 8],
        [2000, 6],
        [5, -100],
      ],
    },
  },
  // With logprobs each token is sampled; otherwise tokens without alternative would skip sampling.
  grammar: { sampling: { temperature: 0.8, seed: 11 }, grammar: 'root ::= ("- " [a-z ]{2,12} "\\n")+', logprobs: 0 },
  'stop strings': { sampling: { temperature: 0.8, seed: 10 }, stop: ['e', '。', 'ing '] },
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
