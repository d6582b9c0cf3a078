/**
 * From a request to the backend that answers it: decides, forwards the backend's events, and says
 * which route was taken.
 *
 * What a consumer may rely on, whatever the backend does: `route`, `start`, any number of `text`,
 * one `finish`; or a SvcError is thrown. A deadline or an abort ends the work behind the iterator,
 * and so does returning from it early.
 */
import { SvcError, type ErrorCode } from '../protocol/errors.ts';
import type { FinishEvent, GenerateEvent, GenerateRequest, RouteEvent } from '../protocol/generate.ts';
import type { Backend, GenerateContext } from '../backends/backend.ts';
import { decide } from './policy.ts';

/** What became of a generation. */
export interface Outcome {
  readonly provider: string;
  /** null: nobody has begun to answer. */
  readonly model: string | null;
  readonly outcome: 'ok' | ErrorCode;
  /** Since the request arrived. null: there was no text. */
  readonly firstTextMs: number | null;
  /** null: it did not come to its end. */
  readonly finish: FinishEvent | null;
}

export class Router {
  readonly #backends: ReadonlyMap<string, Backend>;
  readonly #idleListeners: (() => void)[] = [];
  #observer: (outcome: Outcome) => void = () => undefined;
  #active = 0;
  #waiting = 0;
  #draining = false;

  /** The map stays the composition root's: a provider added to it later is found. */
  constructor(backends: ReadonlyMap<string, Backend>) {
    this.#backends = backends;
  }

  /** Generations that a backend has begun to answer. */
  get active(): number {
    return this.#active;
  }

  /** Generations that no backend has begun to answer. */
  get waiting(): number {
    return this.#waiting;
  }

  get draining(): boolean {
    return this.#draining;
  }

  /** `observer` is told of each generation when it is over, however it ended. */
  observe(observer: (outcome: Outcome) => void): void {
    this.#observer = observer;
  }

  /** From now on every new request is refused; those under way go on. Idempotent. */
  drain(): void {
    this.#draining = true;
  }

  /** Resolves once nothing is under way. */
  async idle(): Promise<void> {
    if (this.#active + this.#waiting === 0) return;
    await new Promise<void>((resolve) => this.#idleListeners.push(resolve));
  }

  async *route(request: GenerateRequest, context: GenerateContext): AsyncGenerator<RouteEvent | GenerateEvent, void> {
    if (this.#draining) {
      throw new SvcError('NOT_READY', 'svc is stopping and takes no new requests', { retryAfterSeconds: 1 });
    }
    const decision = decide(
      request,
      Array.from(this.#backends.values(), (backend) => backend.record()),
    );
    const backend = this.#backends.get(decision.provider);
    if (backend === undefined) throw new SvcError('INTERNAL', `no backend answers for ${decision.provider}`);

    const deadline = startDeadline(request.timeout_ms, context);
    let model: string | null = null;
    let firstTextMs: number | null = null;
    let finish: FinishEvent | null = null;
    // A consumer that leaves early throws nothing.
    let outcome: Outcome['outcome'] = 'CANCELLED';
    this.#waiting += 1;
    try {
      const { model: _asked, route: _route, timeout_ms: _timeout, ...rest } = request;
      const forwarded = decision.model === undefined ? rest : { ...rest, model: decision.model };
      for await (const event of backend.generate(forwarded, { ...context, signal: deadline.signal })) {
        if (event.type === 'start') {
          model = event.model;
          this.#waiting -= 1;
          this.#active += 1;
          yield {
            type: 'route',
            trace_id: context.traceId,
            route: {
              requested: decision.requested,
              chosen: backend.name,
              attempts: [{ provider: backend.name, model: event.model, outcome: 'ok', reason: null }],
            },
          };
        } else if (event.type === 'finish') {
          finish = event;
          outcome = 'ok';
        } else firstTextMs ??= performance.now() - context.arrivedAt;
        yield event;
      }
      if (finish !== null) return;
      deadline.signal.throwIfAborted();
      throw new SvcError('PROVIDER_FAILED', `${backend.name} ended its answer before it was complete`);
    } catch (error) {
      outcome = SvcError.from(error).code;
      throw error;
    } finally {
      deadline.stop();
      this.#observer({ provider: backend.name, model, outcome, firstTextMs, finish });
      if (model !== null) this.#active -= 1;
      else this.#waiting -= 1;
      if (this.#active + this.#waiting === 0) for (const resolve of this.#idleListeners.splice(0)) resolve();
    }
  }
}

/** The caller's signal, and TIMEOUT once `timeoutMs` have passed since the request arrived. */
function startDeadline(timeoutMs: number | undefined, context: GenerateContext): { signal: AbortSignal; stop(): void } {
  if (timeoutMs === undefined) return { signal: context.signal, stop: () => undefined };
  const controller = new AbortController();
  const expire = (): void => {
    controller.abort(new SvcError('TIMEOUT', `the answer was not complete after ${String(timeoutMs)} ms`));
  };
  const timer = setTimeout(expire, Math.max(0, context.arrivedAt + timeoutMs - performance.now()));
  return { signal: AbortSignal.any([context.signal, controller.signal]), stop: () => clearTimeout(timer) };
}
