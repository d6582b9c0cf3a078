/**
 * The spans of an answer, by the conventions of protocol/traces/gen-ai.ts. The span of the received request gets the
 * facts of the answer. A local answer gets a span `engine` with its phases; the requests to providers get theirs in
 * backends/cloud.
 *
 *   server   chat MODEL
 *   internal   engine
 *   internal     queue        until the engine has accepted the request: its model is loaded, and it has a place
 *   internal     prompt       until the first token (`compute`, until the end, if nothing is generated)
 *   internal     generation   until the end
 */
import type { FinishEvent, StartEvent } from '../protocol/generate.ts';
import {
  addFinish,
  nameModel,
  operationAttributes,
  providerAttributes,
  requestAttributes,
  type Operation,
  type TracedRequest,
} from '../protocol/traces/gen-ai.ts';
import type { Span } from '../protocol/traces/span.ts';

export type Kind = 'generation' | 'embedding' | 'reranking' | 'tokenizing';

const OPERATIONS: Readonly<Record<Exclude<Kind, 'generation'>, Operation>> = {
  embedding: 'embeddings',
  reranking: 'rerank',
  tokenizing: 'tokenize',
};

/** Writes the facts of an answer to the span of its request. */
export class AnswerTrace {
  readonly #span: Span | undefined;
  readonly #operation: Operation;
  readonly #model: string | undefined;

  constructor(
    span: Span | undefined,
    kind: Kind,
    request: TracedRequest & { readonly model?: string; readonly raw?: unknown },
  ) {
    this.#span = span;
    this.#operation = operationOf(kind, request);
    this.#model = request.model;
    span?.rename(this.#operation);
    span?.set({ ...operationAttributes(this.#operation), ...requestAttributes(request) });
  }

  /** A backend has begun to answer. */
  begun({ model, provider }: StartEvent): void {
    if (this.#span === undefined) return;
    nameModel(this.#span, this.#operation, model, this.#model);
    this.#span.set(providerAttributes(provider));
  }

  /** The answer has ended. `finish`: null: it is not complete. `attempts`: number of attempts at backends. */
  ended(finish: FinishEvent | null, attempts: number): void {
    if (this.#span === undefined) return;
    if (finish !== null) addFinish(this.#span, this.#operation, finish);
    this.#span.add('svc.route.attempts', attempts);
  }
}

function operationOf(kind: Kind, { raw }: { readonly raw?: unknown }): Operation {
  if (kind !== 'generation') return OPERATIONS[kind];
  return raw === undefined ? 'chat' : 'text_completion';
}

/** The spans of one answer of a local engine. */
export class EngineTrace {
  readonly #engine: Span;
  readonly #generates: boolean;
  #phase: Span;

  constructor(request: Span, generates: boolean) {
    this.#engine = request.child('engine', 'internal');
    this.#generates = generates;
    this.#phase = this.#engine.child('queue', 'internal');
  }

  /** The engine has accepted the request. */
  accepted(): void {
    this.#next(this.#generates ? 'prompt' : 'compute');
  }

  /** The first content has come. */
  answering(): void {
    if (this.#generates) this.#next('generation');
  }

  /** Idempotent. `error`: code of the error that ended the answer. */
  end(error?: string): void {
    const end = error === undefined ? {} : { error };
    this.#phase.end(end);
    this.#engine.end(end);
  }

  #next(name: string): void {
    this.#phase.end();
    this.#phase = this.#engine.child(name, 'internal');
  }
}
