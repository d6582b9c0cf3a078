/**
 * Decides which models are in memory. The memory that a load needs is known beforehand (fit.ts); if too little is
 * free, other models are evicted:
 *
 *   plan ──► settings that would fit if all others were evicted ──► none: OUT_OF_MEMORY, nothing was evicted
 *        └─► while they do not fit: evict the model of least worth ──► load
 *
 * Worth is load time divided by idle time: a large model used a moment ago stays, a small one idle for an hour is
 * evicted. A busy model is evicted only if none is idle, and never during a generation: it finishes its running
 * requests; new ones wait until it is loaded again. So every model gets a turn and no request is lost. Pinned models
 * are never evicted.
 *
 * An engine counts with max(planned, measured) bytes, because the system allocates pages on first use. Measured is
 * memory not backed by a file, plus mapped weights, plus device memory. Plans are made one at a time: two at once
 * would count the same free memory.
 */
import type { NativeLoadOptions } from '../../engine/addon.ts';
import type { HostMemory } from '../../engine/host-memory.ts';
import type { Logger } from '../../log/log.ts';
import { abortable } from '../abortable.ts';
import { deferred, type Deferred } from './deferred.ts';
import { chooseFit, fits, marginOf, totalOf, type Bytes, type Estimate, type Plan, type Room } from './fit.ts';
import type { Pool } from './pool.ts';
import type { Supervisor } from './supervisor.ts';

export interface ResidencyOptions {
  readonly pool: Pool;
  /** Memory limit of all engines together, on host and devices. */
  readonly budget: number | undefined;
  readonly log: Logger;
  hostMemory(): HostMemory;
}

export class Residency {
  readonly #options: ResidencyOptions;
  /** Resolves when the last queued plan is done. */
  #turn: Promise<unknown> = Promise.resolve();
  #changed: Deferred = deferred();

  constructor(options: ResidencyOptions) {
    this.#options = options;
  }

  /** An engine was loaded, ended, or lost a lease. */
  changed(): void {
    this.#changed.resolve();
    this.#changed = deferred();
  }

  /** Throws OUT_OF_MEMORY, the dry run's error, or `signal.reason`. */
  async plan(
    engine: Supervisor,
    options: NativeLoadOptions,
    estimate: Estimate,
    signal: AbortSignal,
    onPlan: (plan: Plan) => void,
  ): Promise<void> {
    const before = this.#turn;
    const done = deferred();
    this.#turn = done.promise;
    try {
      await abortable(before, signal);
      onPlan(await this.#plan(engine, options, estimate, signal));
    } finally {
      // Even if this plan was aborted, the next one still waits for those before it.
      void before.finally(done.resolve);
    }
  }

  async #plan(engine: Supervisor, options: NativeLoadOptions, estimate: Estimate, signal: AbortSignal): Promise<Plan> {
    const { log, pool } = this.#options;
    const wish = { model: engine.model.id, options, atLeast: engine.wantedContext };
    for (;;) {
      signal.throwIfAborted();
      const changed = this.#changed.promise;
      const plan = await chooseFit(
        wish,
        this.#room(engine, (other) => !pool.isPinned(other)),
        estimate,
      );
      if (
        fits(
          plan,
          this.#room(engine, () => false),
        )
      )
        return plan;
      const victim = this.#leastWorth(engine);
      if (victim === undefined) {
        // Other engines are loading or ending: wait for them.
        await abortable(changed, signal);
        continue;
      }
      log.info(
        {
          model: victim.model.id,
          for: engine.model.id,
          bytes: totalOf(victim.held ?? victim.claimed ?? NOTHING),
          idle: victim.isIdle,
        },
        'model evicted to make room for another',
      );
      await victim.retire(signal);
    }
  }

  /** Memory that `engine` may take if the engines for which `goes` is true were evicted. */
  #room(engine: Supervisor, goes: (other: Supervisor) => boolean): Room {
    const { pool, budget, hostMemory } = this.#options;
    const { totalBytes, availableBytes } = hostMemory();
    let host = availableBytes === null ? null : availableBytes - marginOf(totalBytes);
    let left = budget ?? null;
    const devices = new Map<string, number>();
    for (const other of pool.engines) {
      const { claimed, held } = other;
      if (other === engine || claimed === null) continue;
      const isLoaded = other.state === 'loaded';
      // Already missing from the available memory; mapped file pages still count as available.
      const gone = isLoaded ? (held?.host ?? claimed.host) - other.mappedBytes : 0;
      const add = (sign: number): void => {
        for (const [name, bytes] of claimed.devices) devices.set(name, (devices.get(name) ?? 0) + sign * bytes);
      };
      if (goes(other)) {
        if (host !== null) host += gone;
        if (isLoaded) add(1);
        continue;
      }
      if (host !== null) host -= claimed.host - gone;
      if (!isLoaded) add(-1);
      if (left !== null) left -= totalOf(claimed);
    }
    return { host, budget: left, devices };
  }

  /** The best candidate for eviction; idle ones first. undefined: none now. */
  #leastWorth(engine: Supervisor): Supervisor | undefined {
    const { pool } = this.#options;
    const candidates = pool.engines.filter(
      (other) => other !== engine && other.state === 'loaded' && !pool.isPinned(other),
    );
    const worth = (each: Supervisor): number => each.loadMs / Math.max(1, pool.idleMs(each));
    const [first] = candidates.sort((a, b) => Number(b.isIdle) - Number(a.isIdle) || worth(a) - worth(b));
    return first;
  }
}

const NOTHING: Bytes = { host: 0, devices: new Map() };
