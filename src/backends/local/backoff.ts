/**
 * Delays after crashes of one model's engine.
 *
 * A crash delays the restart of the engine, and with it all requests, unless its culprit is known: then the next request
 * with the same content is delayed instead, so that a prompt that crashes the engine keeps no other client waiting. The
 * culprit is the request that was alone in the engine, or that was retried alone (suspects.ts) and had no content yet.
 *
 * A new culprit proves nothing about an engine that crashes under any prompt. So it clears the engine only if a request
 * has been finished since the last new culprit; otherwise the crash counts against the engine, too.
 */
import { createHash } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { SvcError } from '../../protocol/errors.ts';
import { abortable } from '../abortable.ts';

/** Longest delay that requests wait for; they are refused during a longer one. */
export const PATIENCE_MS = 2_000;
/** Time after the delay for which a culprit is remembered. */
const REMEMBERED_MS = 60_000;
/** Maximum number of culprits that are remembered. */
const MOST_CULPRITS = 64;

/** Restart delay in ms after `failures` (from 1) consecutive failures of a model's engine. */
export function restartDelayMs(failures: number): number {
  // No delay after the first failure; then 0.5 s, 1 s, 2 s, ... up to one minute.
  return failures <= 1 ? 0 : Math.min(60_000, 250 * 2 ** (failures - 1));
}

/** A request in the engine. */
export interface Visit {
  readonly request: object;
  /** True until a request that is retried alone has content. */
  isSuspect: boolean;
}

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

  enter(request: object, isSuspect: boolean): Visit {
    const visit = { request, isSuspect };
    this.#visits.add(visit);
    return visit;
  }

  /** `isFinished`: the model has computed the whole answer. */
  leave(visit: Visit, isFinished: boolean): void {
    this.#visits.delete(visit);
    if (!isFinished) return;
    this.#hasFinished = true;
    if (this.#known.size > 0) this.#known.delete(digestOf(visit.request));
  }

  /** Call when the loaded engine has crashed. Returns the number of consecutive failures, of which it had `failures`. */
  failuresAfter(error: SvcError, failures: number): number {
    const visits = [...this.#visits];
    this.#visits.clear();
    const suspects = visits.filter(({ isSuspect }) => isSuspect);
    const [visit, ...others] = suspects.length > 0 ? suspects : visits;
    if (visit === undefined || others.length > 0) return failures + 1;
    const crashes = (this.#find(visit.request)?.crashes ?? 0) + 1;
    this.#note(visit.request, { crashes, retryAt: performance.now() + restartDelayMs(crashes), error });
    if (crashes > 1) return failures;
    if (!this.#hasFinished) return failures + 1;
    this.#hasFinished = false;
    return 0;
  }

  forget(): void {
    this.#known.clear();
  }

  #find(request: object): Culprit | undefined {
    const now = performance.now();
    for (const [digest, { retryAt }] of this.#known) if (now > retryAt + REMEMBERED_MS) this.#known.delete(digest);
    return this.#known.size === 0 ? undefined : this.#known.get(digestOf(request));
  }

  #note(request: object, culprit: Culprit): void {
    const digest = digestOf(request);
    this.#known.delete(digest);
    this.#known.set(digest, culprit);
    const [oldest] = this.#known.keys();
    if (this.#known.size > MOST_CULPRITS && oldest !== undefined) this.#known.delete(oldest);
  }
}

function digestOf(request: object): string {
  return createHash('sha256').update(JSON.stringify(request)).digest('base64');
}
