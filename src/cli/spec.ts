/**
 * The form of a command's spec: its arguments, flags, help and examples. Each command's file exports its `spec` beside
 * its `run`, whose types follow from it. Flags and arguments of several commands are at the end.
 */

import { LIMITS } from '../protocol/limits.ts';

/**
 * Kind of names that shell completion offers, where there are no fixed choices. `provider`: those that can answer;
 * `catalogue`: the providers that svc knows.
 */
export type Completes = 'model' | 'provider' | 'catalogue' | 'setting' | 'file';

interface FlagFacts {
  readonly summary: string;
  /** One letter: `-m`. */
  readonly short?: string;
  readonly completes?: Completes;
}

/** Flag without a value, off by default. */
interface Switch extends FlagFacts {
  readonly kind: 'switch';
}
interface Choice extends FlagFacts {
  readonly kind: 'choice';
  readonly choices: readonly string[];
  readonly default?: string;
}
interface Valued extends FlagFacts {
  /** `duration`: `500ms`, `15s`, `2m`, `1h` or plain seconds, parsed to milliseconds. */
  readonly kind: 'string' | 'duration';
  /** Placeholder of the value in the help. */
  readonly value: string;
  /** As typed on the command line. */
  readonly default?: string;
}
interface Numeric extends Omit<Valued, 'kind'> {
  /** `count`: whole number. */
  readonly kind: 'count' | 'number';
  /** Absent: 0. */
  readonly least?: number;
  readonly most: number;
}
interface Repeatable extends FlagFacts {
  readonly kind: 'strings';
  readonly value: string;
}
export type Flag = Switch | Choice | Valued | Numeric | Repeatable;

export interface Argument {
  /** An argument named `-` accepts only `-`. */
  readonly name: string;
  readonly required: boolean;
  /** Takes all words up to a final `-`, if that is the next argument. */
  readonly repeated?: true;
  readonly choices?: readonly string[];
  readonly completes?: Completes;
}

export interface Spec {
  readonly summary: string;
  /** Paragraphs below the summary in the command's own help. */
  readonly detail?: readonly string[];
  /** Absent: the command takes none. */
  readonly arguments?: readonly Argument[];
  readonly flags: Readonly<Record<string, Flag>>;
  /**
   * Placeholder in the help for the words after `--`, which are passed on to another program. Absent: no such words.
   */
  readonly passesOn?: string;
  /** What to use instead of --json. Only for a command without that flag. */
  readonly insteadOfJson?: string;
  readonly examples: readonly string[];
}

/** Names and specs of all commands, in the order of the help. */
export type Specs = Readonly<Record<string, Spec>>;

type Given<F, T> = F extends { readonly default: string } ? T : T | undefined;
type FlagValue<F> = F extends { readonly kind: 'switch' }
  ? boolean
  : F extends { readonly kind: 'strings' }
    ? readonly string[]
    : F extends { readonly kind: 'choice'; readonly choices: readonly (infer C)[] }
      ? Given<F, C>
      : F extends { readonly kind: 'string' }
        ? Given<F, string>
        : Given<F, number>;
/** Parsed values of a record of flags. */
export type FlagValues<Facts> = { readonly [F in keyof Facts]: FlagValue<Facts[F]> };
export type Flags<S extends Spec> = FlagValues<S['flags']>;

type ArgumentValue<A> = A extends { readonly choices: readonly (infer C)[] } ? C : string;
type OptionalValue<A> = A extends { readonly repeated: true } ? readonly string[] : ArgumentValue<A> | undefined;
export type Arguments<S extends Spec> = {
  readonly [A in NonNullable<S['arguments']>[number] as A['name']]: A['required'] extends true
    ? ArgumentValue<A>
    : OptionalValue<A>;
};

/** Exit code of a command; undefined means 0. */
export type Exit = number | undefined;

/**
 * Type of the `run` that each command's file exports. `loadSpecs` is passed in because a command cannot import the
 * list that imports it. `rest`: the words after `--`, if the command passes them on.
 */
export type Run<S extends Spec> = (
  flags: Flags<S>,
  args: Arguments<S>,
  loadSpecs: () => Promise<Specs>,
  rest: readonly string[],
) => Exit | Promise<Exit>;

export const modelArgument = { name: 'model', required: true, completes: 'model' } as const;
export const providerArgument = { name: 'provider', required: true, completes: 'provider' } as const;
export const settingArgument = { name: 'setting', required: true, completes: 'setting' } as const;

export const jsonFlag = { kind: 'switch', summary: 'print JSON' } as const;
export const jsonLinesFlag = { kind: 'switch', summary: 'print progress and the result as JSON lines' } as const;
export const modelFlag = {
  kind: 'string',
  short: 'm',
  value: 'MODEL',
  summary: 'model id or alias, or path to a .gguf file',
  completes: 'model',
} as const;
export const systemFlag = { kind: 'string', short: 's', value: 'TEXT', summary: 'the system message' } as const;
/**
 * Flags that say how an answer is generated. Their bounds are those of the request's schema (protocol/generate.ts),
 * repeated here because that schema would be loaded by every command.
 */
export const answerFlags = {
  'max-tokens': { kind: 'count', least: 1, most: LIMITS.maxTokens, value: 'N', summary: 'stop after N tokens' },
  temperature: {
    kind: 'number',
    least: 0,
    most: 100,
    value: 'X',
    summary: 'randomness; 0 always picks the most likely token',
  },
  'top-p': {
    kind: 'number',
    least: 0,
    most: 1,
    value: 'X',
    summary: 'keep the most likely tokens, up to this total probability',
  },
  'top-k': { kind: 'count', most: 1_000_000, value: 'N', summary: 'keep the N most likely tokens; 0 keeps all' },
  'min-p': {
    kind: 'number',
    least: 0,
    most: 1,
    value: 'X',
    summary: 'drop tokens less likely than X times the most likely one',
  },
  seed: {
    kind: 'count',
    most: 0xffff_ffff,
    value: 'N',
    summary: 'random seed; the same seed gives the same answer',
  },
  stop: { kind: 'strings', value: 'TEXT', summary: 'stop before this text; may be given more than once' },
  think: {
    kind: 'choice',
    choices: ['off', 'minimal', 'low', 'medium', 'high', 'xhigh'],
    summary: 'how much a reasoning model may think before it answers',
  },
  lora: {
    kind: 'strings',
    value: 'ID[=SCALE]',
    summary: 'use this LoRA adapter of the model, with this strength (default 1); may be given more than once',
  },
  truncate: {
    kind: 'switch',
    summary: 'if the prompt does not fit in the context, drop the oldest turns or the end of a single one, and say so',
  },
} as const;
export const rawFlag = {
  kind: 'switch',
  summary:
    'print the answer as it is; otherwise, on a terminal, thinking is one line and, with colour, Markdown is rendered',
} as const;
/** Flags that choose what answers. */
export const routingFlags = {
  'no-start': { kind: 'switch', summary: 'fail if no daemon is running, instead of starting one' },
  local: { kind: 'switch', summary: 'use only models on this machine' },
  cloud: { kind: 'switch', summary: 'use the default cloud provider' },
  provider: { kind: 'string', value: 'NAME', summary: 'use only this provider', completes: 'provider' },
} as const;
