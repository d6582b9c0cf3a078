/**
 * Chooses load settings that fit in memory. Loads nothing: the figures come from dry runs of the engine
 * (native/engine/llama/memory_estimate.h).
 *
 * Configured settings are never changed: if they do not fit, the load is refused with the memory needed, the memory
 * free and the context length that would fit. Settings left open are tried in this order; the first that fit are used:
 *
 *   1. the default context, all layers on the GPU, keys and values as F16
 *   2. the same with keys and values as Q8_0: half the cache size, almost the same text
 *   3. with a GPU: as many layers on it as fit, the others on the CPU
 *   4. the largest context that fits, down to MIN_CONTEXT_LENGTH
 *
 * Memory is linear in the context length (cells and their mask), except that buffer sizes are rounded. So two dry
 * runs give the line, and a third confirms the interpolated length.
 */
import type { NativeLoadOptions, NativeMemoryEstimate, NativeMemoryEstimates } from '../../engine/addon.ts';
import { SvcError } from '../../protocol/errors.ts';

/** Minimum context length, in tokens, that is useful for a chat. */
export const MIN_CONTEXT_LENGTH = 2048;
/** The engine rounds the context up to a multiple of this many cells. */
const CONTEXT_STEP = 256;

/** Memory left to the system and other programs, on the host and each device: this fraction, at most MARGIN_BYTES. */
const MARGIN_PART = 1 / 20;
const MARGIN_BYTES = 512 * 1024 * 1024;

export const marginOf = (totalBytes: number): number => Math.min(MARGIN_BYTES, totalBytes * MARGIN_PART);

/** Memory on the host, and on each device by name. */
export interface Bytes {
  readonly host: number;
  readonly devices: ReadonlyMap<string, number>;
}

/** Memory that a load may take. null: unknown, so unbounded. */
export interface Room {
  readonly host: number | null;
  /** Difference to what the devices had free in the dry run. */
  readonly devices: ReadonlyMap<string, number>;
  /** What is left of `models.memory_budget_bytes`, for host and devices together. */
  readonly budget: number | null;
}

export interface Wish {
  /** Model id, for errors. */
  readonly model: string;
  /** Configured settings; absent ones are chosen here. */
  readonly options: NativeLoadOptions;
  /** Context length requested by a client, in tokens; 0: none. */
  readonly atLeast: number;
}

export interface Plan {
  readonly options: NativeLoadOptions;
  readonly bytes: Bytes;
  /** Part of the host bytes: weights used directly in the mapped file. */
  readonly mappedBytes: number;
  /** Free bytes of each device minus the margin. null: unknown. */
  readonly free: ReadonlyMap<string, number | null>;
}

/** Does a dry run. Throws the engine's error about the model or the settings. */
export type Estimate = (
  options: NativeLoadOptions,
  contextLengths: readonly number[],
) => Promise<NativeMemoryEstimates>;

export const totalOf = ({ host, devices }: Bytes): number =>
  [...devices.values()].reduce((sum, bytes) => sum + bytes, host);

export function fits(plan: Plan, room: Room): boolean {
  return places(plan, room).every(({ needed, free }) => needed <= free);
}

interface Place {
  readonly where: string;
  readonly needed: number;
  readonly free: number;
}

/** Every bounded memory, with what is needed and free there. */
function places({ bytes, free }: Plan, room: Room): Place[] {
  const all: Place[] = [];
  if (room.host !== null) all.push({ where: 'of RAM', needed: bytes.host, free: room.host });
  if (room.budget !== null) {
    all.push({ where: 'of models.memory_budget_bytes', needed: totalOf(bytes), free: room.budget });
  }
  for (const [name, needed] of bytes.devices) {
    const left = free.get(name) ?? null;
    if (left !== null) all.push({ where: `on ${name}`, needed, free: left + (room.devices.get(name) ?? 0) });
  }
  return all;
}

/** Throws OUT_OF_MEMORY, or the dry run's error. */
export async function chooseFit({ model, options, atLeast }: Wish, room: Room, estimate: Estimate): Promise<Plan> {
  let first = await planOf(options, options.context_length ?? 0, estimate);
  if (first.contextLength < atLeast && !first.makesEmbeddings) first = await planOf(options, atLeast, estimate);
  if (fits(first, room)) return first;

  const smaller = await withSmallerCache(options, first.contextLength, estimate);
  if (smaller !== null && fits(smaller, room)) return smaller;

  const best = smaller ?? first;
  const spread = await withFewerLayers(best, options, room, estimate);
  if (spread !== null) return spread;

  const shorter = await withShorterContext(best, room, estimate);
  const mayBeShorter = options.context_length === undefined && (shorter?.contextLength ?? 0) >= atLeast;
  if (shorter !== null && mayBeShorter) return shorter;
  throw refusal(model, first, room, shorter?.contextLength ?? null);
}

interface LengthPlan extends Plan {
  readonly contextLength: number;
  readonly layers: number;
  readonly makesEmbeddings: boolean;
}

async function planOf(options: NativeLoadOptions, contextLength: number, estimate: Estimate): Promise<LengthPlan> {
  const estimates = await estimate(options, [contextLength]);
  const [found] = estimates.estimates as [NativeMemoryEstimate];
  const { state_fixed_bytes, state_token_bytes } = estimates;
  const stateSize = state_token_bytes + state_fixed_bytes > 0 && { state_fixed_bytes, state_token_bytes };
  return {
    options: { ...options, ...stateSize, context_length: found.context_length },
    bytes: bytesOf(estimates, found),
    mappedBytes: found.devices.reduce((sum, { mapped_bytes }) => sum + mapped_bytes, 0),
    free: new Map(
      found.devices
        .filter(({ is_host }) => !is_host)
        .map(({ name, free_bytes: free, total_bytes }) => [
          name,
          free === null ? null : free - marginOf(total_bytes ?? free),
        ]),
    ),
    contextLength: found.context_length,
    layers: estimates.layers,
    makesEmbeddings: estimates.makes_embeddings,
  };
}

function bytesOf({ process_bytes }: NativeMemoryEstimates, { devices }: NativeMemoryEstimate): Bytes {
  let host = process_bytes ?? 0;
  const others = new Map<string, number>();
  for (const { name, is_host, weights_bytes, cache_bytes, compute_bytes } of devices) {
    const bytes = weights_bytes + cache_bytes + compute_bytes;
    if (is_host) host += bytes;
    else others.set(name, bytes);
  }
  return { host, devices: others };
}

/** null: the cache type is configured, or the model does not support Q8_0. */
async function withSmallerCache(
  options: NativeLoadOptions,
  contextLength: number,
  estimate: Estimate,
): Promise<LengthPlan | null> {
  if (options.cache_type !== undefined) return null;
  try {
    const plan = await planOf({ ...options, cache_type: 'q8_0' }, contextLength, estimate);
    return plan.makesEmbeddings ? null : plan;
  } catch (error) {
    if (error instanceof SvcError && error.code === 'MODEL_INVALID') return null;
    throw error;
  }
}

/** Binary search for the most GPU layers that fit. null: not even zero layers fit, or the number is configured. */
async function withFewerLayers(
  plan: LengthPlan,
  { gpu_layers: chosen }: NativeLoadOptions,
  room: Room,
  estimate: Estimate,
): Promise<LengthPlan | null> {
  if (chosen !== undefined || plan.bytes.devices.size === 0) return null;
  const at = (gpuLayers: number): Promise<LengthPlan> =>
    planOf({ ...plan.options, gpu_layers: gpuLayers }, plan.contextLength, estimate);
  let best = await at(0);
  if (!fits(best, room)) return null;
  let [low, high] = [0, plan.layers + 1];
  while (high - low > 1) {
    const middle = Math.floor((low + high) / 2);
    const found = await at(middle);
    if (fits(found, room)) [low, best] = [middle, found];
    else high = middle;
  }
  return best;
}

/** The largest context shorter than `most` that fits; null: not even the smallest fits. */
async function withShorterContext(most: LengthPlan, room: Room, estimate: Estimate): Promise<LengthPlan | null> {
  // Embedding models compute one input at a time, in buffers allocated for it.
  if (most.contextLength <= MIN_CONTEXT_LENGTH || most.makesEmbeddings) return null;
  const { options } = most;
  const least = await planOf(options, MIN_CONTEXT_LENGTH, estimate);
  if (!fits(least, room)) return null;
  const share = sharedBy(least, most, room);
  const span = most.contextLength - least.contextLength;
  for (let length = least.contextLength + share * span; ; length *= 0.95) {
    const rounded = Math.floor(length / CONTEXT_STEP) * CONTEXT_STEP;
    if (rounded <= least.contextLength) return least;
    const found = await planOf(options, rounded, estimate);
    if (fits(found, room)) return found;
  }
}

/** Interpolates between `least`, which fits, and `most`, which does not: the fraction, 0 to 1, that fits. */
function sharedBy(least: Plan, most: Plan, room: Room): number {
  const ends = new Map(places(most, room).map(({ where, needed }) => [where, needed]));
  const parts = places(least, room).map(({ where, needed, free }) => {
    const end = ends.get(where) ?? needed;
    return end <= needed ? 1 : (free - needed) / (end - needed);
  });
  return Math.max(0, Math.min(1, ...parts));
}

function refusal(model: string, plan: LengthPlan, room: Room, fitting: number | null): SvcError {
  // The memory with the largest shortage.
  const [tightest] = places(plan, room).sort((a, b) => b.needed - b.free - (a.needed - a.free));
  const { needed, free, where } = tightest as Place;
  const hint =
    fitting === null
      ? `not even a context of ${String(MIN_CONTEXT_LENGTH)} tokens fits: free some memory, or use a smaller model`
      : `a context of ${String(fitting)} tokens fits: svc config set engine.context_length ${String(fitting)}`;
  return new SvcError(
    'OUT_OF_MEMORY',
    `not enough memory for ${model}: a context of ${String(plan.contextLength)} tokens needs ${megabytes(needed)} ${where}, and ${megabytes(free)} are free`,
    { hint },
  );
}

function megabytes(bytes: number): string {
  return `${(Math.max(0, bytes) / 1e6).toFixed(0)} MB`;
}
