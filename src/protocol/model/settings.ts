/**
 * Settings of one model: `models.NAME` in the config. NAME is an installed model, or with `from` a further name of
 * one. How the settings of several names add up is decided in models/store/named-models.ts.
 */
import type { GenerateRequest, Sampling } from '../generate.ts';
import { given } from '../given.ts';

/** What a name sets for the requests that use it; a request's own fields take precedence. */
export interface RequestSettings {
  /** System message of chats that have none. */
  readonly system?: string;
  readonly sampling?: Sampling;
  readonly stop?: readonly string[];
  readonly max_tokens?: number;
  readonly reasoning?: NonNullable<GenerateRequest['reasoning_effort']>;
  readonly repetition_guard?: NonNullable<GenerateRequest['repetition_guard']>;
  /** LoRA adapters of the model. */
  readonly lora?: NonNullable<GenerateRequest['lora']>;
  /** In seconds; -1: forever. */
  readonly keep_alive?: number;
}

/** What a name sets for the engine that loads it; over the config's section `engine`. */
export interface LoadSettings {
  readonly context_length?: number;
  readonly cache_type?: 'f16' | 'q8_0';
  readonly gpu_layers?: number;
  /** GPU that gets all of these layers: its name, or its number. */
  readonly main_gpu?: string | number;
  /** Share of each GPU in the layers. */
  readonly tensor_split?: readonly number[];
  /** Layers whose experts stay in memory, from the first on. */
  readonly cpu_experts?: number | 'all';
  /** Draft model; null: none. */
  readonly draft?: string | null;
}

/** Defaults of the config's section `engine` for LoadSettings. */
export interface LoadDefaults extends Omit<LoadSettings, 'draft'> {
  readonly draft_model?: string | null;
}

/** A setting that a name and the config's section `engine` may have. */
export type SharedSetting = keyof LoadSettings & keyof LoadDefaults;

/** Settings of a load, as the engine takes them. */
export interface Load extends Omit<LoadSettings, 'draft' | 'main_gpu' | 'cpu_experts'> {
  readonly main_gpu?: string;
  readonly cpu_experts?: number;
}

/** More layers than any model has. */
const ALL_LAYERS = 10_000;

/** What a model is loaded with: its own settings over the defaults. */
export function loadSettingsOf(
  settings: LoadSettings = {},
  defaults: LoadDefaults,
): Load & { readonly draft: string | null } {
  const { draft } = settings;
  const { context_length, cache_type, gpu_layers, main_gpu, tensor_split, cpu_experts } = over(defaults, settings);
  return {
    ...given({
      context_length,
      cache_type,
      gpu_layers,
      main_gpu: main_gpu === undefined ? undefined : String(main_gpu),
      tensor_split,
      cpu_experts: cpu_experts === 'all' ? ALL_LAYERS : cpu_experts,
    }),
    draft: draft === undefined ? (defaults.draft_model ?? null) : draft,
  };
}

/**
 * Settings over others. `main_gpu` and `tensor_split` are one choice: who sets one of them does not get the other from
 * below.
 */
function over<Below extends LoadDefaults>(below: Below, above: LoadSettings): Below & LoadSettings {
  const { main_gpu: _main, tensor_split: _split, ...rest } = below;
  const isChosen = above.main_gpu !== undefined || above.tensor_split !== undefined;
  return { ...((isChosen ? rest : below) as Below), ...above };
}

/** Settings of which each makes an engine of its own. */
export const LOAD_SETTINGS = [
  'context_length',
  'cache_type',
  'gpu_layers',
  'main_gpu',
  'tensor_split',
  'cpu_experts',
  'draft',
] as const satisfies readonly (keyof LoadSettings)[];

export interface ModelSettings extends RequestSettings, LoadSettings {
  /** Installed model, or another name. Absent: these are the settings of the installed model with this name. */
  readonly from?: string;
}

/** By name. */
export type ModelNames = Readonly<Record<string, ModelSettings>>;

/** Most names from one to the next until an installed model. */
const LONGEST_CHAIN = 8;

/** As an installed model's id may be: `qwen3:4b`, `owner/repo:Q4_K_M`. */
const MODEL_NAME = /^[a-z0-9](?:[a-z0-9._:/@-]*[a-z0-9])?$/i;
const LONGEST_NAME = 128;
/** `default` stands for the default model in requests; `file:` for a path. */
const TAKEN = /^(?:default$|file:)/i;

export function isModelName(name: string): boolean {
  return MODEL_NAME.test(name) && name.length <= LONGEST_NAME && !TAKEN.test(name);
}

/** Returns the key of `names` that is `name`, ignoring case. */
export function nameIn(names: ModelNames, name: string): string | undefined {
  if (Object.hasOwn(names, name)) return name;
  return Object.keys(names).find((each) => each.toLowerCase() === name.toLowerCase());
}

/** Names that are made from another model, so that no installed model may have them. */
export function furtherNames(names: ModelNames): string[] {
  return Object.entries(names).flatMap(([name, { from = name }]) =>
    from.toLowerCase() === name.toLowerCase() ? [] : [name],
  );
}

/** A name and the names that it is made from, the last of them made from an installed model. */
export interface Chain {
  readonly names: readonly string[];
  /** Name of the installed model. */
  readonly base: string;
  /** The problem of a chain that is circular or too long. */
  readonly problem?: string;
}

export function chainOf(names: ModelNames, name: string): Chain {
  const chain: string[] = [];
  let wanted = name;
  for (;;) {
    const next = nameIn(names, wanted);
    if (next === undefined) return { names: chain, base: wanted };
    // A name with its own `from`, or without one, is the installed model of that name.
    const before = chain.at(-1);
    if (next === before) return { names: chain, base: wanted };
    if (chain.includes(next))
      return { names: chain, base: wanted, problem: `is a circle: ${[...chain, next].join(' → ')}` };
    if (chain.length === LONGEST_CHAIN)
      return { names: chain, base: wanted, problem: `is a chain of more than ${String(LONGEST_CHAIN)} names` };
    chain.push(next);
    wanted = names[next]?.from ?? next;
  }
}

/** Adds up settings: those of a name over those of the name that it is made from. */
export function merged(below: ModelSettings, above: ModelSettings): ModelSettings {
  const sampling = { ...below.sampling, ...above.sampling };
  const { from: _, ...rest } = over<ModelSettings>(below, above);
  return { ...rest, ...(Object.keys(sampling).length === 0 ? {} : { sampling }) };
}
