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
 *
 * A KV cache that grows is planned with its current size. For a larger one only idle models are evicted, and nothing
 * is waited for: a busy model may itself wait to grow, or for a load that waits for this one.
 */
import { setImmediate as nextTurn } from 'node:timers/promises';
import type { CellDemand, NativeDevice } from '../../../engine/addon.ts';
import type { HostMemory } from '../../../process/host-memory.ts';
import type { Logger } from '../../../log/log.ts';
import { SvcError } from '../../../protocol/errors.ts';
import { given } from '../../../protocol/given.ts';
import { abortable } from '../../abortable.ts';
import { deferred, type Deferred } from '../deferred.ts';
import {
  chooseFit,
  fits,
  marginOf,
  shortage,
  totalOf,
  type Bytes,
  type Estimate,
  type Plan,
  type Room,
  type Step,
  type Wish,
} from './fit.ts';
import type { Pool } from '../pool.ts';
import type { Supervisor } from '../supervisor.ts';

export interface ResidencyOptions {
  readonly pool: Pool;
  /** Memory limit of all engines together, on host and devices. */
  readonly budget: number | undefined;
  readonly log: Logger;
  hostMemory(): HostMemory;
  /** As the engines have reported them; empty if that is too long ago. */
  devices(): readonly NativeDevice[];
}

/** An idle model that gets a request while it is being evicted for a growing KV cache stays. */
const EVICTION_MS = 5_000;

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
    asked: Pick<Wish, 'options' | 'settings'>,
    estimate: Estimate,
    signal: AbortSignal,
    onPlan: (plan: Plan) => void,
  ): Promise<void> {
    const before = this.#turn;
    const done = deferred();
    this.#turn = done.promise;
    try {
      await abortable(before, signal);
      await this.#plan(engine, asked, estimate, signal, onPlan);
    } finally {
      // Even if this plan was aborted, the next one still waits for those before it.
      void before.finally(done.resolve);
    }
  }

  async #plan(
    engine: Supervisor,
    asked: Pick<Wish, 'options' | 'settings'>,
    estimate: Estimate,
    signal: AbortSignal,
    onPlan: (plan: Plan) => void,
  ): Promise<void> {
    const { pool } = this.#options;
    const { id, context_length: trained } = engine.model;
    const wish = { model: id, ...asked, trained };
    const { context_length } = asked.options;
    if (trained !== null && (context_length ?? 0) > trained) {
      const facts = { model: id, context_length, trained_context_length: trained };
      this.#options.log.warn(facts, 'the configured context is longer than the model was trained for');
    }
    for (;;) {
      signal.throwIfAborted();
      const changed = this.#changed.promise;
      const plan = await chooseFit(
        { ...wish, atLeast: engine.askContext() },
        this.#room(engine, (other) => !pool.isPinned(other)),
        estimate,
      );
      if (
        fits(
          plan,
          this.#room(engine, () => false),
        )
      ) {
        // Before anything else can take that memory: another engine may grow at any time.
        onPlan(plan);
        this.#tell(wish.model, plan);
        return;
      }
      const victim = this.#leastWorth(engine);
      if (victim !== undefined) await this.#evict(victim, engine, signal);
      else if (this.#mayChange(engine)) await abortable(changed, signal);
      // Another program took the memory during the dry run: choose again with the rest.
      else await nextTurn();
    }
  }

  /**
   * Reserves memory for a larger KV cache: the first step that has the cells wanted or, if that does not fit, the
   * least. Returns the number of cells. Throws OUT_OF_MEMORY.
   */
  async grow(engine: Supervisor, { least, wanted }: CellDemand): Promise<number> {
    const { log, pool } = this.#options;
    const { child } = engine;
    for (;;) {
      if (engine.child !== child) throw engine.gone();
      const changed = this.#changed.promise;
      const { plan } = engine;
      const steps = plan === null ? [] : stepsFrom(plan);
      const smallest = steps.find(({ cells }) => cells >= least);
      if (plan === null || smallest === undefined) {
        throw new SvcError('OUT_OF_MEMORY', `the context has at most ${String(steps.at(-1)?.cells ?? 0)} tokens`);
      }
      const free = new Map(this.#options.devices().map((device) => [device.name, leftOn(device)]));
      const fitsNow = ({ bytes }: Step, goes: (other: Supervisor) => boolean): boolean =>
        fits({ bytes, free }, this.#room(engine, goes));
      const step = [steps.find(({ cells }) => cells >= wanted), smallest].find(
        (each) => each !== undefined && fitsNow(each, () => false),
      );
      if (step !== undefined) {
        engine.claim(step);
        log.info({ model: engine.model.id, cells: step.cells, bytes: totalOf(step.bytes) }, 'the KV cache grows');
        return step.cells;
      }
      if (pool.engines.some((other) => other.isEnding)) {
        await changed;
        continue;
      }
      const mayGo = (other: Supervisor): boolean => other.isIdle && !pool.isPinned(other);
      const victim = this.#leastWorth(engine);
      if (!fitsNow(smallest, mayGo) || victim === undefined || !victim.isIdle) {
        const room = this.#room(engine, mayGo);
        throw new SvcError('OUT_OF_MEMORY', shortage(smallest.cells, { bytes: smallest.bytes, free }, room));
      }
      // A request that arrives meanwhile keeps its model; then another one, or none, is evicted.
      await this.#evict(victim, engine, AbortSignal.timeout(EVICTION_MS)).catch(() => undefined);
    }
  }

  #tell(model: string, { options, steps, bytes, mappedBytes: mapped_bytes, isChosen }: Plan): void {
    const { context_length, kv_cells = context_length, cache_type = 'f16', gpu_layers, cpu_experts } = options;
    const last = steps.at(-1);
    const facts = { model, context_length, kv_cells, cache_type, bytes: totalOf(bytes), mapped_bytes };
    const whole = last === undefined ? {} : { bytes_of_whole_context: totalOf(last.bytes) };
    const why = isChosen && cache_type === 'q8_0' ? '; q8_0, because a longer context fits with it' : '';
    const placed = given({ gpu_layers, cpu_experts });
    this.#options.log.info({ ...facts, ...placed, ...whole }, `settings of a load${why}`);
  }

  async #evict(victim: Supervisor, engine: Supervisor, signal: AbortSignal): Promise<void> {
    this.#options.log.info(
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

  /** Memory that `engine` may take, with what it has, if the engines for which `goes` is true were evicted. */
  #room(engine: Supervisor, goes: (other: Supervisor) => boolean): Room {
    const { pool, budget, hostMemory } = this.#options;
    const { totalBytes, availableBytes } = hostMemory();
    let host = availableBytes === null ? null : availableBytes - marginOf(totalBytes);
    let left = budget ?? null;
    const devices = new Map<string, number>();
    for (const other of pool.engines) {
      const { claimed, child } = other;
      const isLoaded = other.state === 'loaded';
      if (other === engine && !isLoaded && host !== null) host += child?.privateBytes ?? 0;
      if (claimed === null || (other === engine && !isLoaded)) continue;
      // Already missing from the available memory; mapped file pages still count as available.
      const gone = child?.privateBytes ?? (isLoaded ? claimed.host - other.mappedBytes : 0);
      const add = (sign: number): void => {
        for (const [name, bytes] of claimed.devices) devices.set(name, (devices.get(name) ?? 0) + sign * bytes);
      };
      if (other === engine || goes(other)) {
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

  /** True if another engine is loading with a plan, so that it can be evicted later, or an engine is ending. */
  #mayChange(engine: Supervisor): boolean {
    return this.#options.pool.engines.some((other) => other.isEnding || (other !== engine && other.isLoadPlanned));
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

/** The current size of the KV cache and those to which it may still grow. */
function stepsFrom({ steps, bytes }: Plan): readonly Step[] {
  return steps.slice(steps.findIndex((step) => step.bytes === bytes));
}

/** Free memory of a device minus the margin; null: unknown. */
function leftOn({ memory_free_bytes: free, memory_total_bytes: total }: NativeDevice): number | null {
  return free === null ? null : free - marginOf(total ?? free);
}

const NOTHING: Bytes = { host: 0, devices: new Map() };
