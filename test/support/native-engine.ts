/** Loads the real addon and a small real model in this process. */
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import type {
  Addon,
  EngineFinish,
  EngineRequest,
  NativeEngine,
  NativeLoadOptions,
  NativeOutput,
} from '../../src/engine/addon.ts';
import { loadAddon } from '../../src/engine/loader.ts';

export const TEST_MODELS = ['tiny-llama', 'tiny-qwen2', 'tiny-gemma'] as const;
export type TestModel = (typeof TEST_MODELS)[number];

/** Context in tokens. A generation of ENDLESS_TOKENS takes minutes, because attention cost grows with each token. */
export const ENDLESS_CONTEXT = 65_536;
/** Token limit per generation; three such generations fit into ENDLESS_CONTEXT at once. */
export const ENDLESS_TOKENS = 20_000;

export interface Generated {
  readonly text: string;
  readonly finish: EngineFinish;
}

/** A loaded model, with its outputs grouped by generation. */
export interface TestEngine {
  readonly native: NativeEngine;
  /** Arguments of every onStep call, in order. */
  readonly steps: readonly (readonly NativeOutput[])[];
  /** Submits a request and resolves with the whole answer. */
  generate(request: EngineRequest): Promise<Generated>;
  /** Resolves with the whole answer of a request that was submitted or is about to be. */
  answer(id: number): Promise<Generated>;
  /** Calls `then` inside the onStep call that delivers the generation's first text. */
  onFirstText(id: number, then: () => void): void;
  /** Text of a generation so far. */
  text(id: number): string;
}

/** Embedding-only models: the first attends bidirectionally, the second is causal. */
export const EMBEDDING_MODELS = ['tiny-bert', 'tiny-llama-embed'] as const;
export type EmbeddingModel = (typeof EMBEDDING_MODELS)[number];

/** Models that rank: a cross-encoder, and a causal one with a prompt of its own. */
export const RANKING_MODELS = ['tiny-rank', 'tiny-rank-qwen3'] as const;
export type RankingModel = (typeof RANKING_MODELS)[number];

/** Their chat templates have three different forms of tool calls. */
export const CALLING_MODELS = ['tiny-thinker', 'tiny-glm', 'tiny-gemma4'] as const;
export type CallingModel = (typeof CALLING_MODELS)[number];

export function modelPath(model: TestModel | EmbeddingModel | RankingModel | CallingModel | 'tiny-long'): string {
  return fileURLToPath(new URL(join('..', '..', 'build', 'models', `${model}.gguf`), import.meta.url));
}

export function openAddon(): Addon {
  const { addon, directory } = loadAddon();
  addon.loadBackends(directory);
  return addon;
}

export async function openEngine(
  model: TestModel | CallingModel,
  options: NativeLoadOptions = {},
): Promise<TestEngine> {
  return openFile(modelPath(model), options);
}

export async function openFile(path: string, options: NativeLoadOptions = {}): Promise<TestEngine> {
  const steps: NativeOutput[][] = [];
  const texts = new Map<number, string>();
  const waiting = new Map<number, { resolve: (answer: Generated) => void; reject: (error: Error) => void }>();

  const firsts = new Map<number, () => void>();

  const onStep = (outputs: NativeOutput[]): void => {
    steps.push(outputs);
    for (const { id, text, finish, error } of outputs) {
      texts.set(id, (texts.get(id) ?? '') + text);
      if (text !== '') {
        firsts.get(id)?.();
        firsts.delete(id);
      }
      if (error !== undefined) waiting.get(id)?.reject(new Error(`${error.code}: ${error.message}`));
      if (finish !== undefined) waiting.get(id)?.resolve({ text: texts.get(id) ?? '', finish });
    }
  };
  const native = await openAddon().load(
    path,
    { context_length: 2048, threads: 1, ...options },
    () => undefined,
    onStep,
  );

  const answer = (id: number): Promise<Generated> =>
    new Promise((resolve, reject) => {
      texts.delete(id);
      waiting.set(id, { resolve, reject });
    });
  return {
    native,
    steps,
    answer,
    onFirstText: (id, then) => void firsts.set(id, then),
    text: (id) => texts.get(id) ?? '',
    async generate(request) {
      const answered = answer(request.id);
      answered.catch(() => undefined); // if submit rejects, that is the error to report
      await native.submit(request);
      return answered;
    },
  };
}
