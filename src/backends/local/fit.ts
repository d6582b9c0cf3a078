/**
 * Which of a model's settings fit into the memory that there is. Nothing is loaded for it: the figures
 * come from dry runs of the engine (native/engine/llama/memory_estimate.h).
 *
 * What a person has set is never changed: it fits, or the load is refused with both numbers and the
 * context that would fit. What nobody has set is tried in this order, and the first that fits is taken:
 *
 *   1. the default context, all layers on the GPU, keys and values as F16
 *   2. the same with keys and values as Q8_0: half the cache, hardly another text
 *   3. where there is a GPU, as many layers on it as fit, the others on the processor
 *   4. the largest context that fits, down to MIN_CONTEXT_LENGTH
 *
 * Memory grows with the context in a straight line (cells, and the mask over them), but for the steps
 * in which buffers are rounded: two dry runs tell the line, and a third confirms what it says.
 */
import type { CacheType, NativeLoadOptions, NativeMemoryEstimate, NativeMemoryEstimates } from '../../engine/addon.ts';
import { SvcError } from '../../protocol/errors.ts';

/** With less, a chat does not get far. */
export const MIN_CONTEXT_LENGTH = 2048;
/** The engine rounds up to this many cells. */
const CONTEXT_STEP = 256;

/** Left to the system and to other programs, on the host and on each device: this part of it, and no more than so much. */
const MARGIN_PART = 1 / 20;
const MARGIN_BYTES = 512 * 1024 * 1024;

export const marginOf = (totalBytes: number): number => Math.min(MARGIN_BYTES, totalBytes * MARGIN_PART);

/** On the host, and on each device by name. */
export interface Bytes {
  readonly host: number;
  readonly devices: ReadonlyMap<string, number>;
}

/** What may be taken. null: not known, and then no bound. */
export interface Room {
  readonly host: number | null;
  /** More (or less) than the devices had free in the dry run. */
  readonly devices: ReadonlyMap<string, number>;
  /** Of host and devices together: the part of `models.memory_budget_bytes` that is left. */
  readonly budget: number | null;
}

export interface Wish {
  /** For the error. */
  readonly model: string;
  /** The settings that a person made; the others are to be chosen. */
  readonly options: NativeLoadOptions;
  /** Tokens that somebody asks for; 0: nobody does. */
  readonly atLeast: number;
}

export interface Plan {
  readonly options: NativeLoadOptions;
  readonly bytes: Bytes;
  /** Of those on the host: weights that are used as they lie in the file. */
  readonly mappedBytes: number;
  /** What the devices had free, but for the margin. null: not known. */
  readonly free: ReadonlyMap<string, number | null>;
}

/** The dry run. Throws what the engine says of the model or of the settings. */
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

/** All that has a bound. */
function places({ bytes, free }: Plan, room: Room): Place[] {
  const all: Place[] = [];
  if (room.host !== null) all.push({ where: 'of memory', needed: bytes.host, free: room.host });
  if (room.budget !== null) {
    all.push({ where: 'of models.memory_budget_bytes', needed: totalOf(bytes), free: room.budget });
  }
  for (const [name, needed] of bytes.devices) {
    const left = free.get(name) ?? null;
    if (left !== null) all.push({ where: `on ${name}`, needed, free: left + (room.devices.get(name) ?? 0) });
  }
  return all;
}

/** Throws OUT_OF_MEMORY, and what the dry run throws. */
export async function chooseFit({ model, options, atLeast }: Wish, room: Room, estimate: Estimate): Promise<Plan> {
  let first = await planOf(options, options.contextLength ?? 0, estimate);
  if (first.contextLength < atLeast && !first.makesEmbeddings) first = await planOf(options, atLeast, estimate);
  if (fits(first, room)) return first;

  const smaller = await withSmallerCache(options, first.contextLength, estimate);
  if (smaller !== null && fits(smaller, room)) return smaller;

  const best = smaller ?? first;
  const spread = await withFewerLayers(best, options, room, estimate);
  if (spread !== null) return spread;

  const shorter = await withShorterContext(best, room, estimate);
  const mayBeShorter = options.contextLength === undefined && (shorter?.contextLength ?? 0) >= atLeast;
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
  return {
    options: { ...options, contextLength: found.contextLength },
    bytes: bytesOf(estimates, found),
    mappedBytes: found.devices.reduce((sum, { mappedBytes }) => sum + mappedBytes, 0),
    free: new Map(
      found.devices
        .filter(({ isHost }) => !isHost)
        .map(({ name, freeBytes, totalBytes }) => [
          name,
          freeBytes === null ? null : freeBytes - marginOf(totalBytes ?? freeBytes),
        ]),
    ),
    contextLength: found.contextLength,
    layers: estimates.layers,
    makesEmbeddings: estimates.makesEmbeddings,
  };
}

function bytesOf({ processBytes }: NativeMemoryEstimates, { devices }: NativeMemoryEstimate): Bytes {
  let host = processBytes ?? 0;
  const others = new Map<string, number>();
  for (const { name, isHost, weightsBytes, cacheBytes, computeBytes } of devices) {
    const bytes = weightsBytes + cacheBytes + computeBytes;
    if (isHost) host += bytes;
    else others.set(name, bytes);
  }
  return { host, devices: others };
}

/** null: a person has chosen the type, or the model's shape does not allow another. */
async function withSmallerCache(
  options: NativeLoadOptions,
  contextLength: number,
  estimate: Estimate,
): Promise<LengthPlan | null> {
  if (options.cacheType !== undefined) return null;
  const cacheType: CacheType = 'q8_0';
  try {
    const plan = await planOf({ ...options, cacheType }, contextLength, estimate);
    return plan.makesEmbeddings ? null : plan;
  } catch (error) {
    if (error instanceof SvcError && error.code === 'MODEL_INVALID') return null;
    throw error;
  }
}

/** The most layers on the GPU that fit, none being tried first. null: not even so, or a person has chosen. */
async function withFewerLayers(
  plan: LengthPlan,
  { gpuLayers: chosen }: NativeLoadOptions,
  room: Room,
  estimate: Estimate,
): Promise<LengthPlan | null> {
  if (chosen !== undefined || plan.bytes.devices.size === 0) return null;
  const at = (gpuLayers: number): Promise<LengthPlan> =>
    planOf({ ...plan.options, gpuLayers }, plan.contextLength, estimate);
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

/** The largest context below that of `most` that fits; null: not even the smallest does. */
async function withShorterContext(most: LengthPlan, room: Room, estimate: Estimate): Promise<LengthPlan | null> {
  // Those that embed compute one input at a time, in buffers made for it.
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

/** How much of the way from `least`, which fits, to `most`, which does not, there is room for: 0 to 1. */
function sharedBy(least: Plan, most: Plan, room: Room): number {
  const ends = new Map(places(most, room).map(({ where, needed }) => [where, needed]));
  const parts = places(least, room).map(({ where, needed, free }) => {
    const end = ends.get(where) ?? needed;
    return end <= needed ? 1 : (free - needed) / (end - needed);
  });
  return Math.max(0, Math.min(1, ...parts));
}

function refusal(model: string, plan: LengthPlan, room: Room, fitting: number | null): SvcError {
  // Where the most is lacking.
  const [tightest] = places(plan, room).sort((a, b) => b.needed - b.free - (a.needed - a.free));
  const { needed, free, where } = tightest as Place;
  const hint =
    fitting === null
      ? `not even a context of ${String(MIN_CONTEXT_LENGTH)} tokens fits: free some memory, or take a smaller model`
      : `a context of ${String(fitting)} tokens fits: svc config set engine.context_length ${String(fitting)}`;
  return new SvcError(
    'OUT_OF_MEMORY',
    `${model} needs ${megabytes(needed)} ${where} at a context of ${String(plan.contextLength)} tokens, and ${megabytes(free)} are free`,
    { hint },
  );
}

function megabytes(bytes: number): string {
  return `${(Math.max(0, bytes) / 1e6).toFixed(0)} MB`;
}
