/**
 * From a plan to an answer that has begun: the candidates in turn, each as often as makes sense, until
 * one has said its first word. Up to there nothing has reached the caller, so that another may still
 * answer; from there on the answer is that candidate's, and breaks off if it does.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import type { Backend, GenerateContext } from '../backends/backend.ts';
import { SvcError, type ErrorCode } from '../protocol/errors.ts';
import type { EmbedEvent } from '../protocol/embed.ts';
import type { GenerateEvent, RouteAttempt, StartEvent } from '../protocol/generate.ts';
import type { KeyScope } from '../protocol/keys.ts';
import { Circuit, isLeftAlone, PATIENCE_MS } from './circuit.ts';
import { LOCAL, mayFallBack, type Candidate, type Plan } from './policy.ts';
import { retryDelay, RetryBudget } from './retry.ts';

/** What answers consist of: texts, and vectors. */
export type AnswerEvent = GenerateEvent | EmbedEvent;

/** An answer that has begun. */
export interface Begun<Event extends AnswerEvent> {
  readonly backend: Backend;
  readonly start: StartEvent;
  /** What has come after `start` already. */
  readonly first: Event | null;
  readonly rest: AsyncIterator<Event>;
}

export interface Attempt extends RouteAttempt {
  readonly code: 'ok' | ErrorCode;
}

export interface Trial<Event extends AnswerEvent> {
  readonly plan: Plan;
  /** `model`: the name of the model for that backend. Absent: its default. */
  ask(backend: Backend, model: string | undefined, context: GenerateContext): AsyncIterable<Event>;
  readonly context: GenerateContext;
  /** `performance.now()` at which the caller gives up. null: never. */
  readonly deadline: number | null;
  /** Filled as they are made. */
  readonly attempts: Attempt[];
  /** Called before a provider is asked; throws what forbids it. */
  admit(provider: string): Promise<void>;
  /** A backend has begun to work on it, or, with false, failed to answer. */
  onTaken(taken: boolean): void;
}

export class Attempts {
  readonly #backends: ReadonlyMap<string, Backend>;
  readonly #circuits = new WeakMap<Backend, Circuit>();
  readonly #budget = new RetryBudget();

  constructor(backends: ReadonlyMap<string, Backend>) {
    this.#backends = backends;
  }

  /** null: a backend on this machine, which looks after itself. A backend that was replaced begins anew. */
  circuit(backend: Backend): Circuit | null {
    if (backend.name === LOCAL) return null;
    const known = this.#circuits.get(backend) ?? new Circuit(backend.name);
    this.#circuits.set(backend, known);
    return known;
  }

  /** Throws what the last candidate failed with; the context's reason once that is aborted. */
  async begin<Event extends AnswerEvent>(trial: Trial<Event>): Promise<Begun<Event>> {
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

  /** One candidate, as often as makes sense; the error with which it failed in the end. */
  async #insist<Event extends AnswerEvent>(
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

  /** A backend of this machine tries again by itself. */
  #mayInsist({ provider }: Candidate, error: SvcError): boolean {
    return provider !== LOCAL && !isLeftAlone(error);
  }

  async #try<Event extends AnswerEvent>(
    trial: Trial<Event>,
    { provider, model }: Candidate,
    alternatives: number,
  ): Promise<Begun<Event>> {
    const { context } = trial;
    const backend = this.#backends.get(provider);
    if (backend === undefined) {
      throw new SvcError('CONFIG_INVALID', `no provider is named '${provider}'`, { hint: 'see `svc provider list`' });
    }
    await trial.admit(provider);
    const share = shareOfDeadline(trial.deadline, alternatives, provider);
    const signal = share === null ? context.signal : AbortSignal.any([context.signal, share.signal]);
    const askedAt = performance.now();
    const isImpatient = (): boolean => signal.aborted && performance.now() - askedAt < PATIENCE_MS;
    const begin = (): Promise<Begun<Event>> => {
      const events = trial.ask(backend, model, { ...context, signal });
      return firstWord(backend, events, signal, () => trial.onTaken(true));
    };
    try {
      return await (this.circuit(backend)?.run(begin, isImpatient) ?? begin());
    } catch (error) {
      trial.onTaken(false);
      throw error;
    } finally {
      share?.stop();
    }
  }
}

async function firstWord<Event extends AnswerEvent>(
  backend: Backend,
  events: AsyncIterable<Event>,
  signal: AbortSignal,
  onTaken: () => void,
): Promise<Begun<Event>> {
  const rest = events[Symbol.asyncIterator]();
  const opening = await rest.next();
  const start: AnswerEvent | undefined = opening.done === true ? undefined : opening.value;
  if (start?.type !== 'start') {
    signal.throwIfAborted();
    throw new SvcError('PROVIDER_FAILED', `${backend.name} did not begin to answer`);
  }
  onTaken();
  const first = await rest.next();
  return { backend, start, first: first.done === true ? null : first.value, rest };
}

/** Of the time that is left, as much as each of the candidates may take to say its first word. null: all of it. */
function shareOfDeadline(
  deadline: number | null,
  alternatives: number,
  provider: string,
): { signal: AbortSignal; stop(): void } | null {
  if (deadline === null || alternatives === 0) return null;
  const controller = new AbortController();
  const ms = Math.max(0, (deadline - performance.now()) / (alternatives + 1));
  const timer = setTimeout(() => {
    // Another is to have the time that is left.
    controller.abort(
      new SvcError('TIMEOUT', `${provider} said nothing within ${ms.toFixed(0)} ms`, { retryable: false }),
    );
  }, ms);
  return { signal: controller.signal, stop: () => clearTimeout(timer) };
}

/** Reasons name the hosts of providers: below the scope admin the codes have to do. */
function summary(last: SvcError, attempts: readonly Attempt[], scope: KeyScope): SvcError {
  const each = attempts
    .map(({ provider, reason, code }) => (scope === 'admin' ? `${provider}: ${reason ?? ''}` : code))
    .join('; ');
  return new SvcError(last.code, `no route could answer (${each})`, {
    ...(last.hint === undefined ? {} : { hint: last.hint }),
    ...(last.retryAfterSeconds === undefined ? {} : { retryAfterSeconds: last.retryAfterSeconds }),
    retryable: last.retryable,
    cause: last,
  });
}
