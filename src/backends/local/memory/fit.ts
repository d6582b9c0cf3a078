/**
 * Chooses load settings that fit in memory. Loads nothing: the figures come from dry runs of the engine
 * (native/engine/llama/memory_estimate.h).
 *
 * Configured settings are never changed: if they do not fit, the load is refused with the memory needed, the memory
 * free and the context length that would fit. Settings left open are tried in this order; the first that fit are used:
 *
 *   1. the default context, all layers on the GPU, keys and values as F16
 *   2. the same with keys and values as Q8_0: half the cache size, almost the same text
 *   3. with a GPU: the experts of as few layers as possible in host memory, where the CPU computes them; then, with
 *      all experts there, as many layers on the GPU as fit
 *   4. the largest context that fits, down to MIN_CONTEXT_LENGTH
 *
 * These settings then get the longest context that fits, up to the trained one. Only the default context is allocated:
 * the KV cache grows in steps, each twice as large as the one before, when a request needs it. If F16 does not reach
 * GOOD_CONTEXT_LENGTH and Q8_0 does, Q8_0 is used.
 *
 * Between two lengths memory is taken as linear (cells and their mask) to find one that fits, and another dry run
 * confirms it: the sizes of buffers are rounded, and copies of the cells are limited.
 */
import type { NativeLoadOptions, NativeMemoryEstimate, NativeMemoryEstimates } from '../../../engine/addon.ts';
import { SvcError } from '../../../protocol/errors.ts';

/** Minimum context length, in tokens, that is useful for a chat. */
const MIN_CONTEXT_LENGTH = 2048;
/** Context length, in tokens, for which Q8_0 is preferred to F16: an agent's first request is half as long. */
const GOOD_CONTEXT_LENGTH = 32_768;
/** The engine's default, and the first step of a KV cache that grows. */
const DEFAULT_CONTEXT_LENGTH = 8192;
/** A longer context must be configured: the lists of its cells alone would take 50 MB. */
const LONGEST_CHOSEN = 1_048_576;
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

/** Names of the settings that decide for a model, for hints: its own, or those of the section `engine`. */
export interface SettingNames {
  readonly context_length: string;
  readonly cache_type: string;
}

export interface Wish {
  /** Model id, for errors. */
  readonly model: string;
  /** Configured settings; absent ones are chosen here. */
  readonly options: NativeLoadOptions;
  readonly settings: SettingNames;
  /** Trained context length, in tokens. null: unknown, then the KV cache does not grow. */
  readonly trained: number | null;
  /** Context length requested by a client, in tokens; 0: none. */
  readonly atLeast: number;
}

/** A size of the KV cache, and the memory of the engine with it. */
export interface Step {
  readonly cells: number;
  readonly bytes: Bytes;
}

export interface Plan {
  readonly options: NativeLoadOptions;
  /** Memory with the current size of the KV cache, at first that of the first step. */
  readonly bytes: Bytes;
  /** Sizes that the KV cache may have, ascending. The last is the longest context of a request. */
  readonly steps: readonly Step[];
  /** True if the context length was chosen here; false if it is configured. */
  readonly isChosen: boolean;
  readonly settings: SettingNames;
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

export function fits(plan: Pick<Plan, 'bytes' | 'free'>, room: Room): boolean {
  return places(plan, room).every(({ needed, free }) => needed <= free);
}

interface Place {
  readonly where: string;
  readonly needed: number;
  readonly free: number;
}

/** Every bounded memory, with what is needed and free there. */
function places({ bytes, free }: Pick<Plan, 'bytes' | 'free'>, room: Room): Place[] {
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
export async function chooseFit(wish: Wish, room: Room, estimate: Estimate): Promise<Plan> {
  const { options, settings } = wish;
  return { ...(await choose(wish, room, estimate)), isChosen: options.context_length === undefined, settings };
}

type Chosen = Omit<Plan, 'isChosen' | 'settings'>;

async function choose(wish: Wish, room: Room, estimate: Estimate): Promise<Chosen> {
  const { options, trained, atLeast } = wish;
  const longer = options.context_length === undefined ? lengthsUpTo(trained) : [];
  let plans = await plansOf(options, [options.context_length ?? 0, ...longer], estimate);
  const [usual] = plans;
  // The context of an embedding model does not grow: it is allocated at load.
  if (usual.makesEmbeddings) plans = [usual];
  if (usual.contextLength < atLeast && (longer.length === 0 || usual.makesEmbeddings)) {
    plans = await plansOf(options, [atLeast], estimate);
  }
  const [first] = plans;
  if (fits(first, room)) return await longestOf(plans, wish, room, estimate);

  const smaller = await withSmallerCache(options, lengthsOf(plans), estimate);
  if (smaller !== null && fits(smaller[0], room)) return await longestOf(smaller, wish, room, estimate);

  const best = (smaller ?? plans)[0];
  const spread = await withLessOnGpu(best, options, room, estimate);
  if (spread !== null) {
    const spreads = await plansOf(spread.options, lengthsOf(plans), estimate);
    return await longestOf(spreads, wish, room, estimate);
  }
  const shorter = await withShorterContext(best, room, estimate);
  const mayBeShorter = options.context_length === undefined && (shorter?.contextLength ?? 0) >= atLeast;
  if (shorter !== null && mayBeShorter) return shorter;
  const fitting = shorter ?? (fits(usual, room) ? usual : null);
  throw refusal(wish, first, room, fitting?.contextLength ?? null);
}

/** Lengths above the default, each twice the one before, up to the trained one. */
function lengthsUpTo(trained: number | null): number[] {
  const most = Math.min(trained ?? 0, LONGEST_CHOSEN);
  const lengths: number[] = [];
  for (let length = 2 * DEFAULT_CONTEXT_LENGTH; length < most; length *= 2) lengths.push(length);
  if (most > DEFAULT_CONTEXT_LENGTH) lengths.push(most);
  return lengths;
}

/** The same settings at one length or more, ascending. */
type Lengths = readonly [LengthPlan, ...LengthPlan[]];

const lengthsOf = (plans: Lengths): number[] => plans.map(({ contextLength }) => contextLength);

/** Gives the settings of `plans` the longest context that fits, or Q8_0 where only that makes it long enough. */
async function longestOf(plans: Lengths, wish: Wish, room: Room, estimate: Estimate): Promise<Chosen> {
  const { options, trained, atLeast } = wish;
  const good = Math.max(Math.min(trained ?? 0, GOOD_CONTEXT_LENGTH), atLeast);
  let steps = await fittingOf(plans, room, estimate);
  if (longestIn(steps) < good && plans[0].options.cache_type === undefined) {
    const smaller = await withSmallerCache(plans[0].options, lengthsOf(plans), estimate);
    const smallerSteps = smaller === null ? steps : await fittingOf(smaller, room, estimate);
    if (longestIn(smallerSteps) >= good) steps = smallerSteps;
  }
  if (longestIn(steps) >= atLeast) return growing(steps);
  const [asked] = await plansOf(options, [atLeast], estimate);
  throw refusal(wish, asked, room, longestIn(steps));
}

const longestIn = (plans: Lengths): number => (plans.at(-1) as LengthPlan).contextLength;

/** The first of `plans`, which fits, and all that fit after it; then the longest that fits between two of them. */
async function fittingOf(plans: Lengths, room: Room, estimate: Estimate): Promise<Lengths> {
  const [first, ...longer] = plans;
  const tooLong = longer.find((plan) => !fits(plan, room));
  const fitting = tooLong === undefined ? longer : longer.slice(0, longer.indexOf(tooLong));
  if (tooLong === undefined) return plans;
  const last = fitting.at(-1) ?? first;
  const between = await longestBetween(last, tooLong, room, estimate);
  return [first, ...fitting, ...(between === last ? [] : [between])];
}

function growing(plans: Lengths): Chosen {
  const [first] = plans;
  if (plans.length === 1) return first;
  return {
    ...first,
    options: { ...first.options, context_length: longestIn(plans), kv_cells: first.contextLength },
    steps: plans.flatMap(({ steps }) => steps),
  };
}

interface LengthPlan extends Chosen {
  readonly contextLength: number;
  readonly layers: number;
  readonly hasExperts: boolean;
  readonly makesEmbeddings: boolean;
}

/** REQUIRES: at least one length. */
async function plansOf(
  options: NativeLoadOptions,
  contextLengths: readonly number[],
  estimate: Estimate,
): Promise<Lengths> {
  const estimates = await estimate(options, contextLengths);
  return estimates.estimates.map((found) => planOf(options, estimates, found)) as unknown as Lengths;
}

function planOf(options: NativeLoadOptions, estimates: NativeMemoryEstimates, found: NativeMemoryEstimate): LengthPlan {
  const bytes = bytesOf(estimates, found);
  const { state_fixed_bytes, state_token_bytes } = estimates;
  const stateSize = state_token_bytes + state_fixed_bytes > 0 && { state_fixed_bytes, state_token_bytes };
  return {
    options: { ...options, ...stateSize, context_length: found.context_length },
    bytes,
    steps: [{ cells: found.context_length, bytes }],
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
    hasExperts: estimates.has_experts,
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
  contextLengths: readonly number[],
  estimate: Estimate,
): Promise<Lengths | null> {
  if (options.cache_type !== undefined) return null;
  try {
    const plans = await plansOf({ ...options, cache_type: 'q8_0' }, contextLengths, estimate);
    return plans[0].makesEmbeddings ? null : plans;
  } catch (error) {
    if (error instanceof SvcError && error.code === 'MODEL_INVALID') return null;
    throw error;
  }
}

/** null: it does not fit even with everything on the host, or the config sets what goes where. */
async function withLessOnGpu(
  plan: LengthPlan,
  { gpu_layers, cpu_experts }: NativeLoadOptions,
  room: Room,
  estimate: Estimate,
): Promise<LengthPlan | null> {
  const { options, contextLength, layers, bytes } = plan;
  if (bytes.devices.size === 0) return null;
  const planWith = async (choice: NativeLoadOptions): Promise<LengthPlan> => {
    const [found] = await plansOf({ ...options, ...choice }, [contextLength], estimate);
    return found;
  };
  const movesExperts = plan.hasExperts && cpu_experts === undefined;
  if (movesExperts) {
    const found = await mostThatFits(layers, room, (count) => planWith({ cpu_experts: layers - count }));
    if (found !== null) return found;
  }
  if (gpu_layers !== undefined) return null;
  const experts = movesExperts ? { cpu_experts: layers } : {};
  return await mostThatFits(layers + 1, room, (count) => planWith({ ...experts, gpu_layers: count }));
}

/**
 * Binary search for the largest number below `end` whose plan fits. null: not even 0 fits. REQUIRES: fewer need less on
 * the devices.
 */
async function mostThatFits(
  end: number,
  room: Room,
  planWith: (count: number) => Promise<LengthPlan>,
): Promise<LengthPlan | null> {
  let best = await planWith(0);
  if (!fits(best, room)) return null;
  let [low, high] = [0, end];
  while (high - low > 1) {
    const middle = Math.floor((low + high) / 2);
    const found = await planWith(middle);
    if (fits(found, room)) [low, best] = [middle, found];
    else high = middle;
  }
  return best;
}

/** The largest context shorter than `most` that fits; null: not even the smallest fits. */
async function withShorterContext(most: LengthPlan, room: Room, estimate: Estimate): Promise<LengthPlan | null> {
  // Embedding models compute one input at a time, in buffers allocated for it.
  if (most.contextLength <= MIN_CONTEXT_LENGTH || most.makesEmbeddings) return null;
  const [least] = await plansOf(most.options, [MIN_CONTEXT_LENGTH], estimate);
  return fits(least, room) ? await longestBetween(least, most, room, estimate) : null;
}

/** The longest context that fits from `least`, which fits, to `most`, which does not. */
async function longestBetween(
  least: LengthPlan,
  most: LengthPlan,
  room: Room,
  estimate: Estimate,
): Promise<LengthPlan> {
  const span = most.contextLength - least.contextLength;
  for (let more = sharedBy(least, most, room) * span; ; more *= 0.95) {
    const rounded = Math.floor((least.contextLength + more) / CONTEXT_STEP) * CONTEXT_STEP;
    if (rounded <= least.contextLength) return least;
    const [found] = await plansOf(most.options, [rounded], estimate);
    if (fits(found, room)) return found;
  }
}

/** Interpolates between `least`, which fits, and `most`, which does not: the fraction, 0 to 1, that fits. */
function sharedBy(least: LengthPlan, most: LengthPlan, room: Room): number {
  const ends = new Map(places(most, room).map(({ where, needed }) => [where, needed]));
  const parts = places(least, room).map(({ where, needed, free }) => {
    const end = ends.get(where) ?? needed;
    return end <= needed ? 1 : (free - needed) / (end - needed);
  });
  return Math.max(0, Math.min(1, ...parts));
}

function refusal(wish: Wish, plan: LengthPlan, room: Room, fitting: number | null): SvcError {
  const lacks = shortage(plan.contextLength, plan, room);
  return new SvcError('OUT_OF_MEMORY', `not enough memory for ${wish.model}: ${lacks}`, {
    hint: wayOut(wish, fitting),
  });
}

/** `fitting`: the longest context that fits, in tokens; null: none. */
function wayOut({ options, settings }: Wish, fitting: number | null): string {
  if (fitting === null) {
    return `not even a context of ${String(MIN_CONTEXT_LENGTH)} tokens fits: free some memory, or use a smaller model`;
  }
  const { context_length: configured = 0 } = options;
  const most = String(fitting);
  // The config alone would fit, or sets no length: then a request, or `svc model load --context`, asked for too much.
  const help =
    fitting < configured ? `svc config set ${settings.context_length} ${most}` : `ask for at most ${most} tokens`;
  return `a context of ${most} tokens fits: ${help}`;
}

/** What a context of `cells` tokens lacks, with both sizes. REQUIRES: it does not fit. */
export function shortage(cells: number, plan: Pick<Plan, 'bytes' | 'free'>, room: Room): string {
  // The memory with the largest shortage.
  const [tightest] = places(plan, room).sort((a, b) => b.needed - b.free - (a.needed - a.free));
  const { needed, free, where } = tightest as Place;
  return `a context of ${String(cells)} tokens needs ${megabytes(needed)} ${where}, and ${megabytes(free)} are free`;
}

function megabytes(bytes: number): string {
  return `${(Math.max(0, bytes) / 1e6).toFixed(0)} MB`;
}
