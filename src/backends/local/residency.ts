/**
 * Which models are in memory. Before a model is loaded it is known what it will take (fit.ts); if there
 * is too little room, others make way:
 *
 *   plan ──► the settings that fit, if all others went ──► none: OUT_OF_MEMORY, and nobody was disturbed
 *        └─► while there is no room for them: the one of least worth retires ──► load
 *
 * Worth is what it would cost to have a model back, for the time that it has been idle: a large one that was
 * used a moment ago stays, a small one that nobody has asked for in an hour goes. A model that computes goes
 * only when none is idle, and never during a generation: it takes no new ones, ends those that run, and
 * who asks for it meanwhile has it loaded again in turn. So each gets its turn, and no request is lost. Pinned
 * models never go.
 *
 * Of an engine counts what it was measured to hold (what no file backs, the weights in use, and what lies on
 * devices), or what was planned as long as that is more: a system gives out pages as they are first used. One plan
 * is made at a time: two would count the same room.
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
  /** Bytes that all engines together may hold, on the host and on devices. */
  readonly budget: number | undefined;
  readonly log: Logger;
  hostMemory(): HostMemory;
}

export class Residency {
  readonly #options: ResidencyOptions;
  /** The end of the plan that is being made. */
  #turn: Promise<unknown> = Promise.resolve();
  #changed: Deferred = deferred();

  constructor(options: ResidencyOptions) {
    this.#options = options;
  }

  /** An engine was loaded, ended, or is used by fewer. */
  changed(): void {
    this.#changed.resolve();
    this.#changed = deferred();
  }

  /** Throws OUT_OF_MEMORY, what the dry run throws, or `signal.reason`. */
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
      // Whoever comes next waits for those before, also when this one has given up.
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
        // Others are being loaded, or end.
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
        'a model makes way for another',
      );
      await victim.retire(signal);
    }
  }

  /** What `engine` may take if those went for whom `goes` holds. */
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
      // Gone from what is available; pages of files are not.
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

  /** Of those that may go, an idle one before any that computes. undefined: there is none now. */
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
