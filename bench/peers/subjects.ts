/** The models, and the scenarios measured on each. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { readGgufHeader } from '../../src/models/gguf/gguf.ts';
import type { Bar, Scenario } from './scenario.ts';
import { busyMachine, longArrives, sharedPrefix, shortBehindLong } from './scenarios/contention.ts';
import { conversations } from './scenarios/conversations.ts';
import { longConversation } from './scenarios/long-conversation.ts';
import { memoryAtFirst, memoryAtLast } from './scenarios/memory.ts';
import { schema } from './scenarios/schema.ts';
import { speculation } from './scenarios/speculation.ts';
import { eightStreams, oneStream, prefill } from './scenarios/streams.ts';
import { twentyTools } from './scenarios/tools.ts';

export interface Subject {
  /** Path of a GGUF file. */
  readonly model: string;
  /** Path of its projector. */
  readonly projector?: string;
  /** Arguments of `test/make-model/make-model.ts` that create the file; null: the file exists. */
  readonly make: readonly string[] | null;
  readonly scenarios: readonly Scenario[];
  /** Number of KV-cache cells; absent: that of the command line. */
  readonly contextLength?: number;
}

const PEER = 'llama-server';
const PEER_8 = 'llama-server -np 8';
const NODE = 'node-llama-cpp';
const asFast: Bar = { server: PEER, ratio: 1 };
const clearlyFaster: Bar = { server: PEER, ratio: 1.5 };
const asFastWithEightSlots: Bar = { server: PEER_8, ratio: 1 };

/** A part of the comparison: a section of docs/benchmarks.md. */
export interface Part {
  readonly name: string;
  readonly heading: string;
  readonly subjects: readonly Subject[];
}

/** All scenarios of the first part, for the main model. */
const MAIN: readonly Scenario[] = [
  memoryAtFirst,
  oneStream({ servers: ['svc', PEER, NODE], bars: [asFast], tokens: 96, seconds: 4 }),
  prefill({ servers: ['svc', PEER, NODE], bars: [asFast], tokens: 512, seconds: 4 }),
  prefill({ servers: ['svc', PEER], bars: [asFast], tokens: 4096, seconds: 28 }),
  eightStreams({
    servers: ['svc', PEER, PEER_8, NODE],
    bars: [{ server: PEER, ratio: 1.35 }, asFastWithEightSlots],
    tokens: 48,
    seconds: 13,
  }),
  sharedPrefix,
  longArrives,
  shortBehindLong,
  busyMachine,
  schema,
  speculation,
  memoryAtLast,
  conversations,
];

/** Basic figures, for other quantizations and sizes. */
const plain = (tokens: number, factor: number): readonly Scenario[] => [
  memoryAtFirst,
  oneStream({ servers: ['svc', PEER], bars: [asFast], tokens, seconds: 4 * factor }),
  prefill({ servers: ['svc', PEER], bars: [asFast], tokens: 512, seconds: 4 * factor }),
  eightStreams({
    servers: ['svc', PEER, PEER_8],
    bars: [asFast, asFastWithEightSlots],
    tokens: tokens / 2,
    seconds: 10 * factor,
  }),
];

/** For a model of 5 MB: the overhead besides the model's computation. */
const OVERHEAD: readonly Scenario[] = [
  oneStream({ servers: ['svc', PEER, NODE], bars: [clearlyFaster], tokens: 512, seconds: 1 }),
  eightStreams({ servers: ['svc', PEER, NODE], bars: [clearlyFaster], tokens: 256, seconds: 2 }),
];

/** Cells for a long prompt and some turns. */
const LONG_CONTEXT = 36_864;

export const parts = (root: string): readonly [Part, ...Part[]] => {
  const made = (name: string, make: readonly string[], scenarios: readonly Scenario[]): Subject => ({
    model: join(root, 'build', 'models', `${name}.gguf`),
    make,
    scenarios,
  });
  const answers = [
    made('qwen2.5-0.5b', ['qwen2.5-0.5b'], MAIN),
    made('tiny-llama', ['tiny-llama'], OVERHEAD),
    made('qwen2.5-0.5b-q4_k_m', ['qwen2.5-0.5b', '--type', 'Q4_K_M'], plain(96, 1)),
    made('llama-3.2-1b', ['llama-3.2-1b'], plain(48, 1.3)),
  ];
  const agents = [
    made('qwen2.5-0.5b', ['qwen2.5-0.5b'], [twentyTools]),
    ...Object.entries({ 'long-plain': 25, 'long-window': 25, 'long-hybrid': 25, 'long-state': 240 }).map(
      ([name, seconds]) => ({ ...made(name, [name], [longConversation(seconds)]), contextLength: LONG_CONTEXT }),
    ),
  ];
  return [
    { name: 'answers', heading: 'Beside llama-server', subjects: answers },
    { name: 'agents', heading: 'What agents send, beside llama-server', subjects: agents },
  ];
};

/** Subject for a user's own file. */
export const subjectOf = (model: string): Subject => ({ model, make: null, scenarios: [...MAIN, twentyTools] });

const MAKE_MODEL = fileURLToPath(new URL('../../test/make-model/make-model.ts', import.meta.url));

/** Creates the subject's file if it is one of ours. */
export async function makeSubject({ make }: Subject): Promise<void> {
  if (make === null) return;
  const child = spawn(process.execPath, ['--import', 'tsx', MAKE_MODEL, ...make], {
    stdio: ['ignore', 'inherit', 'inherit'],
  });
  const [code] = (await once(child, 'exit')) as [number | null];
  if (code !== 0) throw new Error(`test/make-model/make-model.ts ${make.join(' ')} failed`);
}

/** Number of tokens in the vocabulary of a GGUF file. */
export async function vocabularySize(model: string): Promise<number> {
  const tokens = (await readGgufHeader(model)).metadata.get('tokenizer.ggml.tokens')?.value;
  if (typeof tokens !== 'object') throw new Error(`${model} has no vocabulary`);
  return tokens.count;
}
