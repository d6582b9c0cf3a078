/**
 * Routes a request to the backend that answers it: makes the plan, has its candidates tried in order, forwards the
 * events of the one that answers, and reports the requested and the chosen route.
 *
 * Guarantee to consumers, for any backend: `route`, `start`, any number of `text`, `reasoning` and `tool_call` (for
 * embeddings: `vectors`, for reranking: `scores`, for tokenizing: `tokens`), one `finish`; or a SvcError is thrown.
 * `route` comes with the first content. A deadline, an abort or an early return stops the work behind the iterator.
 */
import type { Caller } from '../protocol/caller.ts';
import { SvcError, type ErrorCode } from '../protocol/errors.ts';
import type { EmbedEvent, EmbedRequest } from '../protocol/embed.ts';
import type {
  AnswerEvent,
  FinishEvent,
  GenerateRequest,
  RouteAttempt,
  RouteEvent,
  StartEvent,
} from '../protocol/generate.ts';
import type { ProviderHealth, ProviderRecord } from '../protocol/records.ts';
import type { RerankEvent, RerankRequest } from '../protocol/rerank.ts';
import type { DetokenizeEvent, DetokenizeRequest, TokenizeEvent, TokenizeRequest } from '../protocol/tokenize.ts';
import type { TracedRequest } from '../protocol/traces/gen-ai.ts';
import type { Backend, GenerateContext } from '../backends/backend.ts';
import { AnswerTrace, type Kind } from './answer-trace.ts';
import { Attempts, type BackendEvent, type Attempt, type Begun, type Trial } from './attempts.ts';
import { PATIENCE_MS } from './circuit.ts';
import { decideWithin, type FindModel } from './allow-list.ts';
import { inputTokens } from './estimate.ts';
import { checkRoute, decide, within, type Plan, type Policies, type RoutedRequest } from './policy.ts';
import { Running, type RunningRequest } from './running.ts';

/** Result of a request, for metrics and logs. */
export interface Outcome {
  readonly kind: Kind;
  readonly caller: Caller;
  readonly provider: string;
  /** null: no backend began to answer. */
  readonly model: string | null;
  readonly outcome: 'ok' | ErrorCode;
  /** Time from arrival to the first content. null: no content. */
  readonly firstTextMs: number | null;
  /** null: the answer was not completed. */
  readonly finish: FinishEvent | null;
  /** Usage of an answer that was cut off after a backend had started or a provider was asked, or was not reported. */
  readonly estimated?: { readonly input_tokens: number; readonly output_tokens: number };
  readonly attempts: readonly { readonly provider: string; readonly code: 'ok' | ErrorCode }[];
}

export interface RouterOptions {
  /** Returns the current policies. Absent: none. */
  policies?(): Policies;
  /** Called right before a request is sent to a provider; throws if it is not allowed. */
  admit?(provider: string): Promise<void>;
  /** Called before a request that is usage; throws if the caller's quota is used up. */
  admitCaller?(caller: Caller): Promise<void>;
  /** Finds a model of this machine, for callers with a list of models. Absent: such callers may use none. */
  readonly find?: FindModel;
}

/** `id`: of the request. Never rejects. */
export type Observer = (outcome: Outcome, id: string) => Promise<void>;

/** A request in the counts of the router. */
interface Stage {
  readonly running: RunningRequest;
  asked(provider: string): void;
  taken(start: StartEvent | null): void;
  leave(): void;
  refuse(error: unknown): never;
}

export class Router {
  readonly #backends: ReadonlyMap<string, Backend>;
  readonly #options: RouterOptions;
  readonly #attempts: Attempts;
  readonly #idleListeners: (() => void)[] = [];
  /** Requests that are being answered. */
  readonly running = new Running();
  #observer: Observer = () => Promise.resolve();
  #active = 0;
  #waiting = 0;
  #draining = false;

  /** `backends` is live: providers that the composition root adds later are found. */
  constructor(backends: ReadonlyMap<string, Backend>, options: RouterOptions = {}) {
    this.#backends = backends;
    this.#options = options;
    this.#attempts = new Attempts(backends);
  }

  /** Number of requests that a backend has started on. */
  get active(): number {
    return this.#active;
  }

  /** Number of requests that no backend has started on. */
  get waiting(): number {
    return this.#waiting;
  }

  get draining(): boolean {
    return this.#draining;
  }

  /** Sets the observer, called once per request when it ends, for any reason, before the caller sees the end. */
  observe(observer: Observer): void {
    this.#observer = observer;
  }

  /** Refuses new requests from now on; running ones continue. Idempotent. */
  drain(): void {
    this.#draining = true;
  }

  /** Ends the drain: accepts new requests again. */
  resume(): void {
    this.#draining = false;
  }

  /** Resolves once no request is in flight. */
  async idle(): Promise<void> {
    if (this.#active + this.#waiting === 0) return;
    await new Promise<void>((resolve) => this.#idleListeners.push(resolve));
  }

  /** Rejects if the caller's quota is used up, or cannot be counted. */
  async admit(caller: Caller): Promise<void> {
    await this.#options.admitCaller?.(caller);
  }

  route(request: GenerateRequest, context: GenerateContext): AsyncGenerator<AnswerEvent, void> {
    const { fallback: _, ...asked } = request;
    return this.#answer('generation', request, context, (backend, model, inner) =>
      backend.generate(withModel(asked, model), inner),
    );
  }

  embed(request: EmbedRequest, context: GenerateContext): AsyncGenerator<RouteEvent | EmbedEvent, void> {
    // Vectors of different models are not comparable.
    return this.#answer('embedding', { ...request, fallback: 'same_model' }, context, (backend, model, inner) =>
      backend.embed(withModel(request, model), inner),
    );
  }

  rerank(request: RerankRequest, context: GenerateContext): AsyncGenerator<RouteEvent | RerankEvent, void> {
    // Clients compare the scores of several requests, or with a threshold of one model.
    return this.#answer('reranking', { ...request, fallback: 'same_model' }, context, (backend, model, inner) =>
      backend.rerank(withModel(request, model), inner),
    );
  }

  tokenize(request: TokenizeRequest, context: GenerateContext): AsyncGenerator<RouteEvent | TokenizeEvent, void> {
    // No fallback: each model has a vocabulary of its own.
    return this.#answer('tokenizing', { ...request, fallback: false }, context, (backend, model, inner) =>
      backend.tokenize(withModel(request, model), inner),
    );
  }

  detokenize(request: DetokenizeRequest, context: GenerateContext): AsyncGenerator<RouteEvent | DetokenizeEvent, void> {
    return this.#answer('tokenizing', { ...request, fallback: false }, context, (backend, model, inner) =>
      backend.detokenize(withModel(request, model), inner),
    );
  }

  async *#answer<Event extends BackendEvent>(
    kind: Kind,
    request: RoutedRequest & Pick<GenerateRequest, 'timeout_ms'> & TracedRequest,
    context: GenerateContext,
    ask: Trial<Event>['ask'],
  ): AsyncGenerator<RouteEvent | StartEvent | Event, void> {
    const trace = new AnswerTrace(context.span, kind, request);
    const { running, ...stage } = this.#enter(kind, request.model, context);
    const plan = await this.#plan(kind, request, context.caller).catch((error: unknown) => stage.refuse(error));
    const deadline = startDeadline(request.timeout_ms, context, running.signal);
    const attempts: Attempt[] = [];
    let begun: Begun<Event> | null = null;
    let heardAt = 0;
    const end = { isTold: false };
    const over = async (outcome: Outcome['outcome'], finish: FinishEvent | null): Promise<void> => {
      if (end.isTold) return;
      end.isTold = true;
      begun?.engine?.end(outcome === 'ok' ? undefined : outcome);
      trace.ended(finish, attempts.length);
      const facts = { ...answererOf(begun, running, plan), ...(finish?.usage ? {} : estimateOf(request, running)) };
      const { firstTextMs, id } = running;
      await this.#observer({ kind, caller: context.caller, outcome, firstTextMs, finish, attempts, ...facts }, id);
    };
    try {
      begun = await this.#attempts.begin({
        kind,
        plan,
        ask,
        context: { ...context, signal: deadline.signal },
        deadline: deadline.at,
        attempts,
        admit: async (provider) => this.#options.admit?.(provider),
        onAsked: stage.asked,
        onTaken: stage.taken,
      });
      trace.begun(begun.start);
      for await (const event of eventsOf(begun, routeEvent(plan.requested, begun.backend.name, attempts, context))) {
        if (event.type === 'finish') {
          await over('ok', event);
          this.#attempts.circuit(begun.backend)?.finished();
        } else if (event.type !== 'route' && event.type !== 'start') running.piece(event);
        yield event;
        // The time that the caller took to read the event is not the backend's.
        heardAt = performance.now();
      }
      if (end.isTold) return;
      deadline.signal.throwIfAborted();
      throw new SvcError('PROVIDER_FAILED', `${begun.backend.name} ended its answer before it was complete`);
    } catch (error) {
      const failure = SvcError.from(error);
      const isImpatient = deadline.signal.aborted && performance.now() - heardAt < PATIENCE_MS;
      if (begun !== null && !isImpatient) this.#attempts.circuit(begun.backend)?.broke(failure);
      await over(failure.code, null);
      throw error;
    } finally {
      deadline.stop();
      // Reached without an exception if the consumer returns early.
      await over('CANCELLED', null);
      stage.leave();
    }
  }

  /** Rejects with what the caller may not do. */
  async #plan(kind: Kind, request: RoutedRequest, caller: Caller): Promise<Plan> {
    checkRoute(request.route, caller.scope);
    const plan = within(await this.#decide(kind, request, caller), caller.scope);
    // Tokens that are only counted do not count as usage.
    if (kind !== 'tokenizing') await this.admit(caller);
    return plan;
  }

  async #decide(kind: Kind, request: RoutedRequest, { limits }: Caller): Promise<Plan> {
    const { policies, find = notFound } = this.#options;
    const providers = this.#records().map((record) => withDefaultFor(kind, record));
    if (limits?.models === undefined) return decide(request, providers, policies?.());
    return await decideWithin(limits.models, request, { providers, policies: policies?.(), find });
  }

  /** Health of every provider, derived from its answers. */
  providerHealth(): ProviderHealth[] {
    return Array.from(this.#backends.values()).flatMap((backend) => this.#attempts.circuit(backend)?.health() ?? []);
  }

  #records(): ProviderRecord[] {
    return Array.from(this.#backends.values(), (backend) => backend.record());
  }

  /** Counts a request: as waiting first, as active once a backend has started on it. Throws NOT_READY in a drain. */
  #enter(kind: Kind, model: string | undefined, context: GenerateContext): Stage {
    if (this.#draining) {
      throw new SvcError('NOT_READY', 'svc is draining and accepts no new requests', { retryAfterSeconds: 1 });
    }
    const running = this.running.enter(kind, model, context);
    let isTaken = false;
    this.#waiting += 1;
    const taken = (start: StartEvent | null): void => {
      running.taken(start);
      const now = start !== null;
      if (now === isTaken) return;
      isTaken = now;
      this.#active += now ? 1 : -1;
      this.#waiting += now ? -1 : 1;
    };
    const leave = (): void => {
      taken(null);
      running.leave();
      this.#waiting -= 1;
      if (this.#active + this.#waiting === 0) for (const resolve of this.#idleListeners.splice(0)) resolve();
    };
    return {
      running,
      asked: (provider) => {
        running.asked(provider);
      },
      taken,
      leave,
      refuse: (error) => {
        leave();
        throw error;
      },
    };
  }
}

/** Who answered, or had started to. */
function answererOf(
  begun: Begun<BackendEvent> | null,
  { start, provider }: RunningRequest,
  plan: Plan,
): Pick<Outcome, 'provider' | 'model'> {
  return {
    provider: begun?.backend.name ?? start?.provider ?? provider ?? plan.candidates[0]?.provider ?? 'none',
    model: start?.model ?? null,
  };
}

/** A provider may charge for a prompt from when it has got it, a local model computes nothing before it starts. */
function estimateOf(request: object, { start, provider, outputTokens }: RunningRequest): Pick<Outcome, 'estimated'> {
  if (start === null && provider === null) return {};
  return { estimated: { input_tokens: start?.input_tokens ?? inputTokens(request), output_tokens: outputTokens } };
}

/** The record with the default model that a provider uses for this kind of request. */
function withDefaultFor(kind: Kind, record: ProviderRecord): ProviderRecord {
  if (kind === 'generation') return record;
  return { ...record, default_model: kind === 'embedding' ? record.embedding_model : null };
}

function notFound(): Promise<never> {
  return Promise.reject(new SvcError('MODEL_NOT_FOUND', 'there are no models'));
}

type Routed = Pick<GenerateRequest, 'model' | 'route' | 'timeout_ms'>;

/** The request for a backend: with its name of the model, and without what the router itself has read. */
function withModel<Request extends Routed>(request: Request, model: string | undefined): Request {
  const { model: _model, route: _route, timeout_ms: _timeout, ...asked } = request;
  return (model === undefined ? asked : { ...asked, model }) as Request;
}

function routeEvent(
  requested: string,
  chosen: string,
  attempts: readonly Attempt[],
  { traceId, span, caller }: GenerateContext,
): RouteEvent {
  const route = { requested, chosen, attempts: attempts.map((attempt) => shown(attempt, caller)) };
  return { type: 'route', trace_id: span?.traceId ?? traceId, route };
}

/** Reasons contain provider host names, so callers below scope admin see only the code. */
function shown({ code, ...attempt }: Attempt, { scope }: Caller): RouteAttempt {
  return scope === 'admin' || attempt.reason === null ? attempt : { ...attempt, reason: code };
}

/** Returning early returns from the backend's iterator too. */
async function* eventsOf<Event extends BackendEvent>(
  { start, first, rest }: Begun<Event>,
  route: RouteEvent,
): AsyncGenerator<RouteEvent | StartEvent | Event, void> {
  try {
    yield route;
    yield start;
    if (first === null) return;
    yield first;
    for (;;) {
      const next = await rest.next();
      if (next.done === true) return;
      yield next.value;
    }
  } finally {
    await rest.return?.();
  }
}

interface Deadline {
  readonly signal: AbortSignal;
  /** `performance.now()`; null: no deadline. */
  readonly at: number | null;
  stop(): void;
}

/** The caller's signal and `cancelled`, combined with a TIMEOUT `timeoutMs` after the request arrived. */
function startDeadline(timeoutMs: number | undefined, context: GenerateContext, cancelled: AbortSignal): Deadline {
  const signal = AbortSignal.any([context.signal, cancelled]);
  if (timeoutMs === undefined) return { signal, at: null, stop: () => undefined };
  const at = context.arrivedAt + timeoutMs;
  const controller = new AbortController();
  const expire = (): void => {
    controller.abort(new SvcError('TIMEOUT', `the answer was not complete after ${String(timeoutMs)} ms`));
  };
  const timer = setTimeout(expire, Math.max(0, at - performance.now()));
  return { signal: AbortSignal.any([signal, controller.signal]), at, stop: () => clearTimeout(timer) };
}
