/** The requests that are in the engine process of one model, and the engine's outputs for them, by id. */
import type { EngineOutput, EngineRequest, EngineTokenizeRequest, WithoutId } from '../../engine/addon.ts';
import type { EngineInfo, ToEngine } from '../../engine/messages.ts';
import type { EmbedRequest } from '../../protocol/embed.ts';
import { SvcError } from '../../protocol/errors.ts';
import { given } from '../../protocol/given.ts';
import type { RerankRequest } from '../../protocol/rerank.ts';
import type { DetokenizeRequest, TokensEvent } from '../../protocol/tokenize.ts';
import type { EngineChild, OutputReader } from './engine-child.ts';
import { Embedding, Generation, Ranking, type AnswerOwner } from './generation.ts';
import { Detokenizing, Tokenizing } from './tokenizing.ts';

export interface LoadedEngine {
  readonly child: EngineChild;
  readonly info: EngineInfo;
}

export class InFlight implements AnswerOwner, OutputReader {
  readonly #child: () => EngineChild | null;
  readonly #answers = new Map<number, Generation | Embedding | Ranking | Tokenizing | Detokenizing>();
  #lastId = 0;
  /** Called when the last request has ended. */
  onIdle: () => void = () => undefined;

  /** `child`: returns the current process. */
  constructor(child: () => EngineChild | null) {
    this.#child = child;
  }

  get size(): number {
    return this.#answers.size;
  }

  /** Throws BUSY. */
  generate({ child }: LoadedEngine, request: Omit<EngineRequest, 'id'>): Generation {
    const id = ++this.#lastId;
    child.ask({ type: 'generate', request: { ...request, id } });
    const generation = new Generation(id, this);
    this.#answers.set(id, generation);
    return generation;
  }

  /** Throws BUSY. */
  embed({ child, info }: LoadedEngine, { input, truncate }: EmbedRequest): Embedding {
    const id = ++this.#lastId;
    child.ask({ type: 'embed', request: { id, input, ...given({ truncate }) } });
    const embedding = new Embedding(id, this, input.length, info.embedding_length);
    this.#answers.set(id, embedding);
    return embedding;
  }

  /** Throws BUSY. */
  rerank({ child }: LoadedEngine, { query, documents, max_document_tokens, truncate }: RerankRequest): Ranking {
    const id = ++this.#lastId;
    child.ask({ type: 'rerank', request: { id, query, documents, ...given({ max_document_tokens, truncate }) } });
    const ranking = new Ranking(id, this, documents.length);
    this.#answers.set(id, ranking);
    return ranking;
  }

  /** Throws BUSY. */
  tokenize({ child }: LoadedEngine, request: WithoutId<EngineTokenizeRequest>): Tokenizing {
    const id = ++this.#lastId;
    child.ask({ type: 'tokenize', request: { ...request, id } });
    const tokenizing = new Tokenizing(id, this);
    this.#answers.set(id, tokenizing);
    return tokenizing;
  }

  /** Throws BUSY. */
  detokenize({ child }: LoadedEngine, { tokens, special }: DetokenizeRequest): Detokenizing {
    const id = ++this.#lastId;
    child.ask({ type: 'detokenize', request: { id, tokens, ...given({ special }) } });
    const detokenizing = new Detokenizing(id, this);
    this.#answers.set(id, detokenizing);
    return detokenizing;
  }

  accept(id: number, inputTokens: number): void {
    const answer = this.#answers.get(id);
    answer?.accept(answer instanceof Generation ? inputTokens : undefined);
  }

  pushVectors(id: number, vectors: Float32Array): void {
    this.#answers.get(id)?.pushVectors(vectors);
  }

  pushTokens(id: number, tokens: Omit<TokensEvent, 'type'>): void {
    this.#answers.get(id)?.pushTokens(tokens);
  }

  push(outputs: readonly EngineOutput[]): void {
    for (const output of outputs) this.#answers.get(output.id)?.push(output);
  }

  /** Not with ENGINE_CRASHED: a retry would kill the next engine too. */
  failEndless(id: number): void {
    this.#answers
      .get(id)
      ?.fail(
        new SvcError(
          'INVALID_REQUEST',
          'the engine could not finish preparing this request within engine.stall_timeout_seconds and was killed',
          { hint: "the model's chat template may loop forever: try shorter messages or another model" },
        ),
      );
  }

  failAll(error: SvcError): void {
    const answers = [...this.#answers.values()];
    this.#answers.clear();
    for (const answer of answers) answer.fail(error);
    this.onIdle();
  }

  send(message: ToEngine): void {
    this.#child()?.send(message);
  }

  offend(what: string): void {
    this.#child()?.offend(what);
  }

  release(id: number): void {
    this.#answers.delete(id);
    if (this.#answers.size === 0) this.onIdle();
  }
}
