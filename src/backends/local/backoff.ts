/**
 * Delays after crashes of one model's engine.
 *
 * A crash delays the restart of the engine, and with it all requests, unless its culprit is known: then the next request
 * with the same content is delayed instead, so that a prompt that crashes the engine keeps no other client waiting. The
 * culprit is the request whose preparation did not end; else the one that was being retried alone (suspects.ts) and had
 * no content yet; else the only one in the engine. A request that a client gave up before its first content counts as
 * in the engine for a while, because the engine may still be computing it.
 *
 * A new culprit proves nothing about an engine that crashes under any prompt. So it clears the engine only if a request
 * has been finished since the last new culprit; otherwise the crash counts against the engine, too.
 */
import { createHash } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { SvcError } from '../../protocol/errors.ts';
import { abortable } from '../abortable.ts';
import type { Turn } from './suspects.ts';

/** Longest delay that requests wait for; they are refused during a longer one. */
export const PATIENCE_MS = 2_000;
/** Time after the delay for which a culprit is remembered. */
const REMEMBERED_MS = 60_000;
/** Time for which a request that was given up counts as in the engine: a step and the report of a crash take less. */
const GIVEN_UP_MS = 5_000;
/** Maximum number of culprits that are remembered. */
const MOST_CULPRITS = 64;

/** Restart delay in ms after `failures` (from 1) consecutive failures of a model's engine. */
export function restartDelayMs(failures: number): number {
  // No delay after the first failure; then 0.5 s, 1 s, 2 s, ... up to one minute.
  return failures <= 1 ? 0 : Math.min(60_000, 250 * 2 ** (failures - 1));
}

/** A request in the engine. */
export interface Visit {
  /** Its id there. */
  readonly id: number;
  /** undefined: it is not retried alone. */
  readonly turn: Turn | undefined;
  /** The request. Only its digest once it has left: it may be large. */
  readonly content: object | string;
}

/**
 * How a request has left the engine. `answered`: the model has computed the whole answer. `given up`: its client has
 * left before the first content. `ended`: any other way.
 */
export type Leaving = 'answered' | 'ended' | 'given up';

interface Culprit {
  readonly crashes: number;
  readonly retryAt: number;
  readonly error: SvcError;
}

export class Culprits {
  readonly #model: string;
  readonly #visits = new Set<Visit>();
  /** By digest of the request; the one that crashed last is the last. */
  readonly #known = new Map<string, Culprit>();
  #hasFinished = false;

  constructor(model: string) {
    this.#model = model;
  }

  /**
   * Resolves when the request may be tried; with true if it has crashed the engine before. Throws NOT_READY if that
   * takes long, or `signal.reason`.
   */
  async rest(request: object, signal: AbortSignal): Promise<boolean> {
    const culprit = this.#find(request);
    if (culprit === undefined) return false;
    const leftMs = culprit.retryAt - performance.now();
    if (leftMs > PATIENCE_MS) {
      const seconds = Math.ceil(leftMs / 1000);
      throw new SvcError(
        'NOT_READY',
        `this request has ended the engine of ${this.#model} ${String(culprit.crashes)} times and can be sent again in ${String(seconds)} s; last error: ${culprit.error.message}`,
        { retryAfterSeconds: seconds, hint: 'change the request; `svc logs` has what the engine wrote at its end' },
      );
    }
    if (leftMs > 0) await abortable(sleep(leftMs), signal);
    return true;
  }

  /** `id`: of the request in the engine. */
  enter(content: object, id: number, turn: Turn | undefined): Visit {
    const visit = { id, turn, content };
    this.#visits.add(visit);
    return visit;
  }

  leave(visit: Visit, how: Leaving): void {
    const wasInside = this.#visits.delete(visit);
    if (how === 'given up' && wasInside) this.#linger({ ...visit, content: digestOf(visit.content) });
    if (how !== 'answered') return;
    this.#hasFinished = true;
    if (this.#known.size > 0) this.#known.delete(digestOf(visit.content));
  }

  #linger(visit: Visit): void {
    this.#visits.add(visit);
    setTimeout(() => this.#visits.delete(visit), GIVEN_UP_MS).unref();
  }

  /**
   * Call when the loaded engine has crashed. `endless`: id of the request whose preparation did not end; null: none.
   * `failures`: consecutive failures before this crash. Returns the number that counts after it.
   */
  failuresAfter(error: SvcError, failures: number, endless: number | null): number {
    const [visit, ...others] = this.#accused(endless);
    this.#visits.clear();
    if (visit === undefined || others.length > 0) return failures + 1;
    const crashes = (this.#find(visit.content)?.crashes ?? 0) + 1;
    this.#note(visit.content, { crashes, retryAt: performance.now() + restartDelayMs(crashes), error });
    if (crashes > 1) return failures;
    if (!this.#hasFinished) return failures + 1;
    this.#hasFinished = false;
    return 0;
  }

  forget(): void {
    this.#known.clear();
  }

  #accused(endless: number | null): Visit[] {
    const visits = [...this.#visits];
    if (endless !== null) return visits.filter(({ id }) => id === endless);
    const suspects = visits.filter(({ turn }) => turn?.isOver === false);
    return suspects.length > 0 ? suspects : visits;
  }

  #find(content: Visit['content']): Culprit | undefined {
    const now = performance.now();
    for (const [digest, { retryAt }] of this.#known) if (now > retryAt + REMEMBERED_MS) this.#known.delete(digest);
    return this.#known.size === 0 ? undefined : this.#known.get(digestOf(content));
  }

  #note(content: Visit['content'], culprit: Culprit): void {
    const digest = digestOf(content);
    this.#known.delete(digest);
    this.#known.set(digest, culprit);
    const [oldest] = this.#known.keys();
    if (this.#known.size > MOST_CULPRITS && oldest !== undefined) this.#known.delete(oldest);
  }
}

function digestOf(content: Visit['content']): string {
  if (typeof content === 'string') return content;
  return createHash('sha256').update(JSON.stringify(content)).digest('base64');
}
