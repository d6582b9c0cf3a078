/**
 * The daemon's conditions, each with one writer, and the state that a pure function derives from
 * them. All health and readiness reports read this file's result; nothing else decides readiness.
 */
import type { Logger } from '../log/log.ts';
import {
  CONDITION_NAMES,
  type CheckStatus,
  type Condition,
  type ConditionName,
  type State,
} from '../protocol/records.ts';

/** `starting` until every condition has been checked once; `draining` until the drain is taken back. */
export type Phase = 'starting' | 'running' | 'draining' | 'stopping';

export interface Verdict {
  readonly state: State;
  readonly ready: boolean;
  /** null: all conditions are `ok`. */
  readonly reason: string | null;
}

/** Sets one condition. A new reason with the same status is reported to watchers, but keeps `since`. */
export type ConditionWriter = (status: CheckStatus, reason: string) => void;

/**
 * Conditions that each route needs. The local route needs an engine, and the store in which it looks up the model
 * of every request.
 */
const ROUTES: readonly (readonly ConditionName[])[] = [['engine', 'model_store']];

/** Derives the verdict from the conditions. Those in `exclude` count as `ok`. */
export function judge(
  phase: Phase,
  all: readonly Condition[],
  exclude: ReadonlySet<ConditionName> = new Set(),
): Verdict {
  const conditions = all.filter((condition) => !exclude.has(condition.name));
  const troubles = conditions.filter((condition) => condition.status !== 'ok');
  const reason = troubles.map((condition) => `${condition.name}: ${condition.reason}`).join('; ');

  if (phase === 'stopping') return { state: 'STOPPING', ready: false, reason: 'the daemon is stopping' };
  if (phase === 'draining')
    return { state: 'STOPPING', ready: false, reason: 'the daemon is draining and refuses new requests' };
  if (phase === 'starting') return { state: 'STARTING', ready: false, reason };
  if (troubles.length === 0) return { state: 'READY', ready: true, reason: null };
  const failed = new Set(troubles.filter(({ status }) => status === 'fail').map(({ name }) => name));
  const canServe = ROUTES.some((needs) => !needs.some((name) => failed.has(name)));
  return { state: 'DEGRADED', ready: canServe, reason };
}

export class Conditions {
  readonly #log: Logger;
  readonly #now: () => Date;
  readonly #onNews: () => void;
  readonly #conditions = new Map<ConditionName, Condition>();
  readonly #claimed = new Set<ConditionName>();
  #phase: Exclude<Phase, 'draining'> = 'starting';
  #draining = false;
  #state: State = 'STARTING';

  /** `onNews` is called after every change of a condition, its reason or the phase. */
  constructor(log: Logger, now: () => Date = () => new Date(), onNews: () => void = () => undefined) {
    this.#log = log;
    this.#now = now;
    this.#onNews = onNews;
    for (const name of CONDITION_NAMES) {
      this.#conditions.set(name, { name, status: 'fail', reason: 'not checked yet', since: now().toISOString() });
    }
  }

  get phase(): Phase {
    return this.#draining && this.#phase !== 'stopping' ? 'draining' : this.#phase;
  }

  get all(): readonly Condition[] {
    return [...this.#conditions.values()];
  }

  get(name: ConditionName): Condition {
    return this.#conditions.get(name) as Condition;
  }

  verdict(exclude?: ReadonlySet<ConditionName>): Verdict {
    return judge(this.phase, this.all, exclude);
  }

  /** Returns the only writer of this condition. REQUIRES: it was not taken before. */
  writer(name: ConditionName): ConditionWriter {
    if (this.#claimed.has(name)) throw new Error(`condition ${name} has a writer already`);
    this.#claimed.add(name);
    return (status, reason) => {
      const before = this.get(name);
      if (before.status === status && before.reason === reason) return;
      const since = before.status === status ? before.since : this.#now().toISOString();
      this.#conditions.set(name, { name, status, reason, since });
      if (before.status !== status && this.#phase !== 'starting') {
        this.#log[status === 'ok' ? 'info' : 'warn']({ condition: name, status, reason }, 'condition changed');
      }
      this.#follow();
      this.#onNews();
    };
  }

  /** Phases only go forward. */
  enter(phase: 'running' | 'stopping', why?: string): void {
    if (this.#phase === 'stopping') return;
    this.#phase = phase;
    this.#follow(why);
    this.#onNews();
  }

  /** Starts or takes back a drain. Independent of the phases: taking it back returns to the current phase. */
  drain(on: boolean): void {
    this.#draining = on;
    this.#follow();
    this.#onNews();
  }

  #follow(why?: string): void {
    const { state, reason } = this.verdict();
    if (state === this.#state) return;
    const from = this.#state;
    this.#state = state;
    const level = state === 'DEGRADED' ? 'warn' : 'info';
    this.#log[level]({ from, to: state, reason: why ?? reason ?? 'all conditions are ok' }, 'state changed');
  }
}
