/**
 * From a request to the backend that answers it: decides who may, has them tried in turn, forwards the
 * events of the one that answers, and says which route was asked for and which was taken.
 *
 * What a consumer may rely on, whatever the backend does: `route`, `start`, any number of `text`,
 * `reasoning` and `tool_call` (of embeddings: `vectors`), one `finish`; or a SvcError is thrown. `route` comes with the first word. A deadline or an abort ends the work behind the iterator,
 * and so does returning from it early.
 */
import type { Caller } from '../protocol/caller.ts';
import { SvcError, type ErrorCode } from '../protocol/errors.ts';
import type { EmbedEvent, EmbedRequest } from '../protocol/embed.ts';
import type {
  FinishEvent,
  GenerateEvent,
  GenerateRequest,
  RouteAttempt,
  RouteEvent,
  StartEvent,
} from '../protocol/generate.ts';
import type { ProviderHealth, ProviderRecord } from '../protocol/records.ts';
import type { Backend, GenerateContext } from '../backends/backend.ts';
import { Attempts, type AnswerEvent, type Attempt, type Begun, type Trial } from './attempts.ts';
import { PATIENCE_MS } from './circuit.ts';
import { decide, within, type Policies } from './policy.ts';

/** What became of a generation, or of a request for embeddings. */
export interface Outcome {
  readonly kind: 'generation' | 'embedding';
  readonly caller: Caller;
  readonly provider: string;
  /** null: nobody has begun to answer. */
  readonly model: string | null;
  readonly outcome: 'ok' | ErrorCode;
  /** Since the request arrived. null: there was no text. */
  readonly firstTextMs: number | null;
  /** null: it did not come to its end. */
  readonly finish: FinishEvent | null;
  readonly attempts: readonly { readonly provider: string; readonly code: 'ok' | ErrorCode }[];
}

export interface RouterOptions {
  /** As they are now. Absent: none. */
  policies?(): Policies;
  /** Called before a provider is asked; throws what forbids it. */
  admit?(provider: string): Promise<void>;
}

/** Never rejects. */
export type Observer = (outcome: Outcome) => Promise<void>;

export class Router {
  readonly #backends: ReadonlyMap<string, Backend>;
  readonly #options: RouterOptions;
  readonly #attempts: Attempts;
  readonly #idleListeners: (() => void)[] = [];
  #observer: Observer = () => Promise.resolve();
  #active = 0;
  #waiting = 0;
  #draining = false;

  /** The map stays the composition root's: a provider added to it later is found. */
  constructor(backends: ReadonlyMap<string, Backend>, options: RouterOptions = {}) {
    this.#backends = backends;
    this.#options = options;
    this.#attempts = new Attempts(backends);
  }

  /** Requests that a backend has begun to answer. */
  get active(): number {
    return this.#active;
  }

  /** Requests that no backend has begun to answer. */
  get waiting(): number {
    return this.#waiting;
  }

  get draining(): boolean {
    return this.#draining;
  }

  /** `observer` is told of each request when it is over, however it ended, and before its end reaches the caller. */
  observe(observer: Observer): void {
    this.#observer = observer;
  }

  /** From now on every new request is refused; those under way go on. Idempotent. */
  drain(): void {
    this.#draining = true;
  }

  /** Takes the drain back. */
  resume(): void {
    this.#draining = false;
  }

  /** Resolves once nothing is under way. */
  async idle(): Promise<void> {
    if (this.#active + this.#waiting === 0) return;
    await new Promise<void>((resolve) => this.#idleListeners.push(resolve));
  }

  route(request: GenerateRequest, context: GenerateContext): AsyncGenerator<RouteEvent | GenerateEvent, void> {
    const { model: _model, route: _route, fallback: _fallback, timeout_ms: _timeout, ...asked } = request;
    return this.#answer('generation', request, context, (backend, model, inner) =>
      backend.generate(model === undefined ? asked : { ...asked, model }, inner),
    );
  }

  embed(request: EmbedRequest, context: GenerateContext): AsyncGenerator<RouteEvent | EmbedEvent, void> {
    const { model: _model, route: _route, timeout_ms: _timeout, ...asked } = request;
    // The vectors of another model cannot be compared with those that the caller has: nobody else may answer.
    return this.#answer('embedding', { ...request, fallback: false }, context, (backend, model, inner) =>
      backend.embed(model === undefined ? asked : { ...asked, model }, inner),
    );
  }

  async *#answer<Event extends AnswerEvent>(
    kind: Outcome['kind'],
    request: Pick<GenerateRequest, 'model' | 'route' | 'fallback' | 'timeout_ms'>,
    context: GenerateContext,
    ask: Trial<Event>['ask'],
  ): AsyncGenerator<RouteEvent | StartEvent | Event, void> {
    if (this.#draining) {
      throw new SvcError('NOT_READY', 'svc drains and takes no new requests', { retryAfterSeconds: 1 });
    }
    const plan = within(decide(request, this.#records(), this.#options.policies?.()), context.caller.scope);
    const deadline = startDeadline(request.timeout_ms, context);
    const attempts: Attempt[] = [];
    let begun: Begun<Event> | null = null;
    let firstTextMs: number | null = null;
    let heardAt = 0;
    const end = { isTold: false };
    const over = async (outcome: Outcome['outcome'], finish: FinishEvent | null): Promise<void> => {
      if (end.isTold) return;
      end.isTold = true;
      const provider = begun?.backend.name ?? plan.candidates[0]?.provider ?? 'none';
      const model = begun?.start.model ?? null;
      await this.#observer({ kind, caller: context.caller, provider, model, outcome, firstTextMs, finish, attempts });
    };
    const stage = this.#enter();
    try {
      begun = await this.#attempts.begin({
        plan,
        ask,
        context: { ...context, signal: deadline.signal },
        deadline: deadline.at,
        attempts,
        admit: async (provider) => this.#options.admit?.(provider),
        onTaken: stage.taken,
      });
      yield {
        type: 'route',
        trace_id: context.traceId,
        route: {
          requested: plan.requested,
          chosen: begun.backend.name,
          attempts: attempts.map((attempt) => shown(attempt, context.caller)),
        },
      };
      for await (const event of eventsOf(begun)) {
        heardAt = performance.now();
        if (event.type === 'finish') {
          await over('ok', event);
          this.#attempts.circuit(begun.backend)?.finished();
        } else if (event.type !== 'start') firstTextMs ??= performance.now() - context.arrivedAt;
        yield event;
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
      // A consumer that leaves early throws nothing.
      await over('CANCELLED', null);
      stage.leave();
    }
  }

  /** Of every provider, as its answers have shown it. */
  providerHealth(): ProviderHealth[] {
    return Array.from(this.#backends.values()).flatMap((backend) => this.#attempts.circuit(backend)?.health() ?? []);
  }

  #records(): ProviderRecord[] {
    return Array.from(this.#backends.values(), (backend) => backend.record());
  }

  /** Counts a request: first among those that wait, once a backend has taken it among the active. */
  #enter(): { taken(taken: boolean): void; leave(): void } {
    let isTaken = false;
    this.#waiting += 1;
    const taken = (now: boolean): void => {
      if (now === isTaken) return;
      isTaken = now;
      this.#active += now ? 1 : -1;
      this.#waiting += now ? -1 : 1;
    };
    return {
      taken,
      leave: () => {
        taken(false);
        this.#waiting -= 1;
        if (this.#active + this.#waiting === 0) for (const resolve of this.#idleListeners.splice(0)) resolve();
      },
    };
  }
}

/** Reasons name the hosts of providers: below the scope admin the code has to do. */
function shown({ code, ...attempt }: Attempt, { scope }: Caller): RouteAttempt {
  return scope === 'admin' || attempt.reason === null ? attempt : { ...attempt, reason: code };
}

/** Leaving early leaves the backend's iterator too. */
async function* eventsOf<Event extends AnswerEvent>({
  start,
  first,
  rest,
}: Begun<Event>): AsyncGenerator<StartEvent | Event, void> {
  try {
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
  /** `performance.now()`; null: there is none. */
  readonly at: number | null;
  stop(): void;
}

/** The caller's signal, and TIMEOUT once `timeoutMs` have passed since the request arrived. */
function startDeadline(timeoutMs: number | undefined, context: GenerateContext): Deadline {
  if (timeoutMs === undefined) return { signal: context.signal, at: null, stop: () => undefined };
  const at = context.arrivedAt + timeoutMs;
  const controller = new AbortController();
  const expire = (): void => {
    controller.abort(new SvcError('TIMEOUT', `the answer was not complete after ${String(timeoutMs)} ms`));
  };
  const timer = setTimeout(expire, Math.max(0, at - performance.now()));
  return { signal: AbortSignal.any([context.signal, controller.signal]), at, stop: () => clearTimeout(timer) };
}
