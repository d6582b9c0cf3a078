/**
 * The span of one request to a provider: an HTTP client's span with the attributes of generative AI. A redirect belongs
 * to it; a retry, or another endpoint of a cluster, gets a span of its own.
 */
import type { EmbedEvent } from '../../protocol/embed.ts';
import type { SvcError } from '../../protocol/errors.ts';
import type { GenerateEvent } from '../../protocol/generate.ts';
import type { RerankEvent } from '../../protocol/rerank.ts';
import {
  addFinish,
  nameModel,
  operationAttributes,
  providerAttributes,
  requestAttributes,
  type Operation,
  type TracedRequest,
} from '../../protocol/traces/gen-ai.ts';
import type { Span } from '../../protocol/traces/span.ts';

/** Events of an answer of any kind. */
export type ProviderEvent = GenerateEvent | EmbedEvent | RerankEvent;

export interface Attempted {
  readonly operation: Operation;
  readonly request: TracedRequest;
  readonly provider: string;
  readonly model: string;
  /** Base URL of the provider. */
  readonly endpoint: string;
}

export class AttemptSpan {
  readonly #span: Span | null;
  readonly #operation: Operation;
  readonly #model: string;

  /** `parent`: the span of the received request. */
  constructor(parent: Span | undefined, { operation, request, provider, model, endpoint }: Attempted) {
    this.#operation = operation;
    this.#model = model;
    const attributes = {
      ...operationAttributes(operation),
      ...providerAttributes(provider),
      ...requestAttributes(request),
      'http.request.method': 'POST',
      ...serverOf(endpoint),
    };
    this.#span = parent?.child(operation, 'client', attributes) ?? null;
  }

  /** Headers of the request to the provider. */
  headers(): Record<string, string> {
    return this.#span?.headers() ?? {};
  }

  /** The provider has sent a status. */
  answered(status: number): void {
    this.#span?.set({ 'http.response.status_code': status });
  }

  note(event: ProviderEvent): void {
    if (this.#span === null) return;
    if (event.type === 'start') nameModel(this.#span, this.#operation, event.model, this.#model);
    else if (event.type === 'finish') addFinish(this.#span, this.#operation, event);
  }

  /** Idempotent. */
  failed({ code }: SvcError): void {
    this.#span?.end({ error: code });
  }

  /** Idempotent: nothing after `failed`. */
  end(): void {
    this.#span?.end();
  }
}

function serverOf(endpoint: string): { 'server.address'?: string; 'server.port'?: number } {
  if (!URL.canParse(endpoint)) return {};
  const { hostname, port, protocol } = new URL(endpoint);
  return { 'server.address': hostname, 'server.port': Number(port) || (protocol === 'https:' ? 443 : 80) };
}
