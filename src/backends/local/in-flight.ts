/** The requests that are in the engine process of one model, and the engine's outputs for them, by id. */
import type { EngineInfo, EngineOutput, EngineRequest, EngineTokenizeRequest, WithoutId } from '../../engine/addon.ts';
import type { ToEngine } from '../../engine/messages.ts';
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

/** Not ENGINE_CRASHED: a retry would kill the next engine too. */
const ENDLESS = new SvcError(
  'INVALID_REQUEST',
  'the engine could not finish preparing this request within engine.stall_timeout_seconds and was killed',
  { hint: "the model's chat template may loop forever: try shorter messages or another model" },
);

type Answer = Generation | Embedding | Ranking | Tokenizing | Detokenizing;

export class InFlight implements AnswerOwner, OutputReader {
  readonly #child: () => EngineChild | null;
  readonly #loaded: () => LoadedEngine;
  readonly #answers = new Map<number, Answer>();
  #lastId = 0;
  /** Called when the last request has ended. */
  onIdle: () => void = () => undefined;

  /** `child`: returns the current process. `loaded`: the engine, or throws. */
  constructor(child: () => EngineChild | null, loaded: () => LoadedEngine) {
    this.#child = child;
    this.#loaded = loaded;
  }

  get size(): number {
    return this.#answers.size;
  }

  /** Throws BUSY; so do the next ones. */
  generate(request: Omit<EngineRequest, 'id'>): Generation {
    const { child, info } = this.#loaded();
    const id = ++this.#lastId;
    const answer = new Generation(id, this, { request, contextLength: info.context_length });
    return this.#ask(child, { type: 'generate', request: { ...request, id } }, answer);
  }

  embed({ input, truncate }: EmbedRequest): Embedding {
    const { child, info } = this.#loaded();
    const id = ++this.#lastId;
    const request = { id, input, ...given({ truncate }) };
    return this.#ask(child, { type: 'embed', request }, new Embedding(id, this, input.length, info.embedding_length));
  }

  rerank({ query, documents, max_document_tokens, truncate }: RerankRequest): Ranking {
    const { child } = this.#loaded();
    const id = ++this.#lastId;
    const request = { id, query, documents, ...given({ max_document_tokens, truncate }) };
    return this.#ask(child, { type: 'rerank', request }, new Ranking(id, this, documents.length));
  }

  tokenize(request: WithoutId<EngineTokenizeRequest>): Tokenizing {
    const { child } = this.#loaded();
    const id = ++this.#lastId;
    return this.#ask(child, { type: 'tokenize', request: { ...request, id } }, new Tokenizing(id, this, request));
  }

  detokenize({ tokens, special }: DetokenizeRequest): Detokenizing {
    const { child } = this.#loaded();
    const id = ++this.#lastId;
    const request = { id, tokens, ...given({ special }) };
    return this.#ask(child, { type: 'detokenize', request }, new Detokenizing(id, this));
  }

  #ask<Asked extends Answer>(child: EngineChild, message: Parameters<EngineChild['ask']>[0], answer: Asked): Asked {
    child.ask(message);
    this.#answers.set(answer.id, answer);
    return answer;
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

  /** `endless`: id of the request whose preparation did not end; null: none. */
  failAll(error: SvcError, endless: number | null): void {
    const answers = [...this.#answers.values()];
    this.#answers.clear();
    for (const answer of answers) answer.fail(answer.id === endless ? ENDLESS : error);
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
