/**
 * One endpoint of a cluster: its requests in flight and its state.
 *
 *   up        answers, or was not tried yet
 *   draining  accepts no new requests (503 with Retry-After): avoided until a probe finds it ready
 *   full      overloaded (429): avoided for the time that it asked for
 *   down      unreachable, broke off, or silent: avoided until a probe finds it healthy
 *
 * The state follows from answers and probes. A failed probe counts only if nothing else was received from the endpoint
 * meanwhile: a server that is busy streaming may answer a probe late. When an endpoint goes down, requests still
 * waiting for their first content are aborted there and may go to another.
 */
import type { GenerateContext } from '../../backend.ts';
import { SvcError } from '../../../protocol/errors.ts';
import type { CloudBackend } from '../cloud-backend.ts';
import type { Choice } from './balance.ts';
import type { Probe, Vital } from './probe.ts';

export type MemberState = 'up' | 'draining' | 'full' | 'down';

const FULL_MS = 1000;

export type Events<Event> = AsyncGenerator<Event, void, undefined>;

/** Sends a request of any kind to an endpoint. */
export type Ask<Event> = (backend: CloudBackend, context: GenerateContext) => Events<Event>;

export class Member implements Choice {
  readonly url: string;
  readonly backend: CloudBackend;
  readonly #probe: Probe;
  /** Aborts requests that wait for their first content. */
  readonly #waiting = new Set<AbortController>();
  #underWay = 0;
  /** Requests of other clients, from the last report. */
  #others = 0;
  #state: MemberState = 'up';
  #fullUntil = 0;
  #heardAt = 0;

  constructor(url: string, backend: CloudBackend, probe: Probe) {
    this.url = url;
    this.backend = backend;
    this.#probe = probe;
  }

  get load(): number {
    return this.#underWay + this.#others;
  }

  /** True if no request of this daemon runs there. */
  get isIdle(): boolean {
    return this.#underWay === 0;
  }

  get state(): MemberState {
    if (this.#state === 'full' && performance.now() >= this.#fullUntil) this.#state = 'up';
    return this.#state;
  }

  /** Resolves with the whole answer once its first content has come; the caller must read it or return from it. */
  async begin<Event>(ask: Ask<Event>, context: GenerateContext): Promise<Events<Event>> {
    const silence = new AbortController();
    this.#waiting.add(silence);
    this.#underWay += 1;
    const signal = AbortSignal.any([context.signal, silence.signal]);
    const events = ask(this.backend, { ...context, signal });
    try {
      const first = await events.next();
      if (first.done === true) throw new SvcError('PROVIDER_FAILED', `${this.url} ended without an answer`);
      this.#heard();
      return this.#answer(first.value, events, context);
    } catch (error) {
      this.#underWay -= 1;
      if (!context.signal.aborted) this.#failed(SvcError.from(error));
      throw error;
    } finally {
      this.#waiting.delete(silence);
    }
  }

  /** Probes the endpoint once. Never rejects. */
  async look(signal: AbortSignal): Promise<void> {
    const asked = performance.now();
    const vital = await this.#probe.vital(signal);
    if (signal.aborted) return;
    if (vital !== 'silent' || this.#heardAt < asked) this.#judge(vital);
    const requests = this.state === 'up' ? await this.#probe.requests(signal) : null;
    this.#others = Math.max(0, (requests ?? 0) - this.#underWay);
  }

  async *#answer<Event>(first: Event, events: Events<Event>, context: GenerateContext): Events<Event> {
    try {
      yield first;
      for await (const event of events) {
        this.#heard();
        yield event;
      }
    } catch (error) {
      if (!context.signal.aborted) this.#failed(SvcError.from(error));
      throw error;
    } finally {
      this.#underWay -= 1;
      await events.return();
    }
  }

  #heard(): void {
    this.#heardAt = performance.now();
    if (this.#state === 'down') this.#state = 'up';
  }

  #failed({ code, retryAfterSeconds }: SvcError): void {
    if (code === 'BUSY') {
      this.#state = 'full';
      this.#fullUntil = performance.now() + (retryAfterSeconds === undefined ? FULL_MS : retryAfterSeconds * 1000);
    } else if (code === 'NOT_READY') this.#state = 'draining';
    else if (code === 'PROVIDER_FAILED') this.#state = retryAfterSeconds === undefined ? 'down' : 'draining';
  }

  #judge(vital: Vital): void {
    if (vital === 'well' && this.#state !== 'full') this.#state = 'up';
    else if (vital === 'not_ready') this.#state = 'draining';
    else if (vital === 'silent') {
      this.#state = 'down';
      const silent = new SvcError('PROVIDER_FAILED', `${this.url} does not respond`);
      for (const waiting of this.#waiting) waiting.abort(silent);
    }
  }
}
