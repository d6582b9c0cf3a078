/**
 * Turns a plan into an answer that has begun: tries the candidates in order, with retries, until one sends its first
 * content. Until then nothing has reached the caller, so another candidate may still answer. Afterwards there is no
 * fallback: if the candidate fails, the answer fails.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import type { Backend, GenerateContext } from '../backends/backend.ts';
import { SvcError, type ErrorCode } from '../protocol/errors.ts';
import type { EmbedEvent } from '../protocol/embed.ts';
import type { GenerateEvent, RouteAttempt, StartEvent } from '../protocol/generate.ts';
import { given } from '../protocol/given.ts';
import type { KeyScope } from '../protocol/keys.ts';
import type { RerankEvent } from '../protocol/rerank.ts';
import type { DetokenizeEvent, TokenizeEvent } from '../protocol/tokenize.ts';
import { EngineTrace, type Kind } from './answer-trace.ts';
import { Circuit, isLeftAlone, PATIENCE_MS } from './circuit.ts';
import { LOCAL, mayFallBack, type Candidate, type Plan } from './policy.ts';
import { retryDelay, RetryBudget } from './retry.ts';

/** Events of answers: text, vectors, scores or tokens. */
export type BackendEvent = GenerateEvent | EmbedEvent | RerankEvent | TokenizeEvent | DetokenizeEvent;

/** An answer that has begun. */
export interface Begun<Event extends BackendEvent> {
  readonly backend: Backend;
  readonly start: StartEvent;
  /** The event after `start`, already received. */
  readonly first: Event | null;
  readonly rest: AsyncIterator<Event>;
  /** Spans of a local answer; ended by the router. null: of a provider, or not traced. */
  readonly engine: EngineTrace | null;
}

export interface Attempt extends RouteAttempt {
  readonly code: 'ok' | ErrorCode;
}

export interface Trial<Event extends BackendEvent> {
  readonly kind: Kind;
  readonly plan: Plan;
  /** `model`: the model's name at that backend. Absent: its default. */
  ask(backend: Backend, model: string | undefined, context: GenerateContext): AsyncIterable<Event>;
  readonly context: GenerateContext;
  /** `performance.now()` of the request's deadline. null: none. */
  readonly deadline: number | null;
  /** Attempts are appended as they are made. */
  readonly attempts: Attempt[];
  /** Called right before a request is sent to a provider; throws if it is not allowed. */
  admit(provider: string): Promise<void>;
  /** A request is being sent to a provider. */
  onAsked(provider: string): void;
  /** A backend has started on the request. null: it failed to answer; not called if the request was aborted. */
  onTaken(start: StartEvent | null): void;
}

export class Attempts {
  readonly #backends: ReadonlyMap<string, Backend>;
  readonly #circuits = new WeakMap<Backend, Circuit>();
  readonly #budget = new RetryBudget();

  constructor(backends: ReadonlyMap<string, Backend>) {
    this.#backends = backends;
  }

  /** null: the local backend, which restarts engines itself. A replaced backend gets a new circuit. */
  circuit(backend: Backend): Circuit | null {
    if (backend.name === LOCAL) return null;
    const known = this.#circuits.get(backend) ?? new Circuit(backend.name);
    this.#circuits.set(backend, known);
    return known;
  }

  /** Throws the last candidate's error, or the context's reason once that is aborted. */
  async begin<Event extends BackendEvent>(trial: Trial<Event>): Promise<Begun<Event>> {
    const { plan, attempts } = trial;
    let last = new SvcError('INTERNAL', 'the plan has no candidates');
    for (const [index, candidate] of plan.candidates.entries()) {
      const alternatives = plan.candidates.length - 1 - index;
      const outcome = await this.#insist(trial, candidate, alternatives);
      if (!(outcome instanceof SvcError)) return outcome;
      last = outcome;
      if (!mayFallBack(plan, last)) break;
    }
    throw attempts.length > 1 && plan.candidates.length > 1
      ? summary(last, attempts, trial.context.caller.scope)
      : last;
  }

  /** Tries one candidate, with retries. Returns its last error if all attempts fail. */
  async #insist<Event extends BackendEvent>(
    trial: Trial<Event>,
    candidate: Candidate,
    alternatives: number,
  ): Promise<Begun<Event> | SvcError> {
    const { context, attempts } = trial;
    for (let tried = 1; ; tried += 1) {
      try {
        const begun = await this.#try(trial, candidate, alternatives);
        attempts.push({
          provider: candidate.provider,
          model: begun.start.model,
          outcome: 'ok',
          reason: null,
          code: 'ok',
        });
        this.#budget.succeeded();
        return begun;
      } catch (thrown) {
        context.signal.throwIfAborted();
        const error = SvcError.from(thrown);
        attempts.push({
          provider: candidate.provider,
          model: candidate.model ?? null,
          outcome: isLeftAlone(error) ? 'skipped' : 'failed',
          reason: error.message,
          code: error.code,
        });
        const wait = this.#mayInsist(candidate, error) ? retryDelay(error, tried, alternatives > 0) : null;
        const isInTime = wait !== null && (trial.deadline === null || performance.now() + wait < trial.deadline);
        if (!isInTime || !this.#budget.failed()) return error;
        await sleep(wait, undefined, { signal: context.signal }).catch(() => context.signal.throwIfAborted());
      }
    }
  }

  /** The local backend retries by itself. */
  #mayInsist({ provider }: Candidate, error: SvcError): boolean {
    return provider !== LOCAL && !isLeftAlone(error);
  }

  async #try<Event extends BackendEvent>(
    trial: Trial<Event>,
    { provider, model }: Candidate,
    alternatives: number,
  ): Promise<Begun<Event>> {
    const { context } = trial;
    const backend = this.#backends.get(provider);
    if (backend === undefined) {
      throw new SvcError('CONFIG_INVALID', `no provider is named '${provider}'`, { hint: 'see `svc provider list`' });
    }
    const share = shareOfDeadline(trial.deadline, alternatives, provider);
    const signal = share === null ? context.signal : AbortSignal.any([context.signal, share.signal]);
    const sending = new Sending(trial, provider);
    // What fails before anything is sent, such as the provider's budget, is not a failure of the provider.
    const isExcused = (): boolean => !sending.isSilentFor(signal.aborted ? PATIENCE_MS : 0);
    const { span } = context;
    const engine = span && provider === LOCAL ? new EngineTrace(span, trial.kind === 'generation') : null;
    const begin = async (): Promise<Begun<Event>> => {
      signal.throwIfAborted();
      const events = trial.ask(backend, model, { ...context, signal, onSend: () => sending.begin() });
      return await firstWord(backend, events, signal, engine, trial.onTaken);
    };
    try {
      return await (this.circuit(backend)?.run(begin, isExcused, signal) ?? begin());
    } catch (error) {
      engine?.end(SvcError.from(error).code);
      if (!context.signal.aborted) trial.onTaken(null);
      throw error;
    } finally {
      share?.stop();
    }
  }
}

/** Whether and when an attempt has sent its request to a provider: it counts from then on, and only once. */
class Sending {
  readonly #trial: Pick<Trial<BackendEvent>, 'admit' | 'onAsked'>;
  readonly #provider: string;
  #admission: Promise<void> | null = null;
  /** `performance.now()`. */
  #sentAt = Infinity;

  constructor(trial: Pick<Trial<BackendEvent>, 'admit' | 'onAsked'>, provider: string) {
    this.#trial = trial;
    this.#provider = provider;
  }

  /** Rejects if the request may not be sent. */
  async begin(): Promise<void> {
    await (this.#admission ??= this.#admit());
  }

  /** True if the request was sent at least that long ago. */
  isSilentFor(milliseconds: number): boolean {
    return performance.now() - this.#sentAt >= milliseconds;
  }

  async #admit(): Promise<void> {
    await this.#trial.admit(this.#provider);
    this.#sentAt = performance.now();
    this.#trial.onAsked(this.#provider);
  }
}

async function firstWord<Event extends BackendEvent>(
  backend: Backend,
  events: AsyncIterable<Event>,
  signal: AbortSignal,
  engine: EngineTrace | null,
  onTaken: (start: StartEvent) => void,
): Promise<Begun<Event>> {
  const rest = events[Symbol.asyncIterator]();
  const opening = await rest.next();
  const start: BackendEvent | undefined = opening.done === true ? undefined : opening.value;
  if (start?.type !== 'start') {
    signal.throwIfAborted();
    throw new SvcError('PROVIDER_FAILED', `${backend.name} ended without an answer`);
  }
  onTaken(start);
  engine?.accepted();
  const first = await rest.next();
  engine?.answering();
  return { backend, start, first: first.done === true ? null : first.value, rest, engine };
}

/** Time limit for this candidate's first content: an equal share of the time left. null: all of it. */
function shareOfDeadline(
  deadline: number | null,
  alternatives: number,
  provider: string,
): { signal: AbortSignal; stop(): void } | null {
  if (deadline === null || alternatives === 0) return null;
  const controller = new AbortController();
  const ms = Math.max(0, (deadline - performance.now()) / (alternatives + 1));
  const timer = setTimeout(() => {
    // Not retryable: the remaining time is for the next candidate.
    controller.abort(
      new SvcError('TIMEOUT', `timeout: no answer from ${provider} within ${ms.toFixed(0)} ms`, { retryable: false }),
    );
  }, ms);
  return { signal: controller.signal, stop: () => clearTimeout(timer) };
}

/** Reasons contain provider host names, so callers below scope admin see only codes. */
function summary(last: SvcError, attempts: readonly Attempt[], scope: KeyScope): SvcError {
  const each = attempts
    .map(({ provider, reason, code }) => (scope === 'admin' ? `${provider}: ${reason ?? ''}` : code))
    .join('; ');
  return new SvcError(last.code, `all routes failed (${each})`, {
    ...given({ hint: last.hint, retryAfterSeconds: last.retryAfterSeconds }),
    retryable: last.retryable,
    cause: last,
  });
}
