/**
 * The section `models`: settings of the store and of memory, and beside them settings of single models, by name. A
 * model cannot have the name of a setting; new settings of this section are therefore best avoided.
 */
import { isAbsolute } from 'node:path';
import * as v from 'valibot';
import {
  GenerateRequestSchema,
  LoraSchema,
  REASONING_EFFORTS,
  REPETITION_GUARDS,
  SamplingSchema,
} from '../protocol/generate.ts';
import { KeepAliveSchema } from '../protocol/keep-alive.ts';
import { LIMITS } from '../protocol/limits.ts';
import { chainOf, isModelName, type LoadSettings, type ModelNames } from '../protocol/model/settings.ts';
import { complaint } from '../protocol/validate.ts';
import { object, section, text, wholeNumber } from './schema.ts';

export const repetitionGuard = v.picklist(REPETITION_GUARDS, `must be one of ${REPETITION_GUARDS.join(', ')}`);
/** Type of the KV cache. */
export const cacheType = v.picklist(['f16', 'q8_0'], 'must be f16 or q8_0');
export const contextLength = wholeNumber(64, 16_777_216);
export const gpuLayers = wholeNumber(0, 10_000);
/** Most GPUs that libllama can use. */
const MOST_GPUS = 16;
/** Name, or number. */
export const mainGpu = v.union(
  [wholeNumber(0, MOST_GPUS - 1), v.pipe(text, v.maxLength(64))],
  `must be the name of a GPU, or its number from 0 to ${String(MOST_GPUS - 1)}`,
);
export const tensorSplit = v.pipe(
  v.array(
    v.pipe(v.number('must be a number'), v.finite('must be finite'), v.minValue(0, 'must be at least 0')),
    'must be a list of shares, one for each GPU',
  ),
  v.minLength(1, 'must have a share for each GPU'),
  v.maxLength(MOST_GPUS, `must have at most ${String(MOST_GPUS)} shares`),
  v.check((shares) => shares.some((share) => share > 0), 'must have a share above 0'),
);
export const cpuExperts = v.union([wholeNumber(0, 10_000), v.literal('all')], 'must be a number of layers, or "all"');

/** Follows the name of the field, like the other messages of the config. */
const asInRequests = <Schema extends v.GenericSchema>(schema: Schema) =>
  v.config(schema, { message: (issue) => complaint(issue) });

const notAnObject = v.custom<unknown>(
  (value) => typeof value !== 'object' || value === null,
  'is a setting of svc and cannot be the name of a model: choose another name',
);

const SETTINGS = {
  /** Folder of the models, instead of the data directory. */
  dir: v.exactOptional(v.pipe(notAnObject, text, v.check(isAbsolute, 'must be an absolute path'))),
  /** Memory limit of all engines together, on the host and on devices. Absent: the free memory. */
  memory_budget_bytes: v.exactOptional(v.pipe(notAnObject, wholeNumber(1024 * 1024, Number.MAX_SAFE_INTEGER))),
  /** Time for which a model stays loaded after its last use; -1: forever. */
  keep_alive_seconds: v.exactOptional(v.pipe(notAnObject, wholeNumber(-1, 31_536_000)), 300),
};

const { stop, max_tokens } = GenerateRequestSchema.entries;

const NamedModelSchema = v.pipe(
  v.custom<object>(
    (value) => typeof value === 'object' && value !== null && !Array.isArray(value),
    'is not a setting of svc; the settings of a model with this name must be an object',
  ),
  v.strictObject({
    /** Installed model, or another name. Absent: the installed model of this name. */
    from: v.exactOptional(v.pipe(text, v.maxLength(LIMITS.modelNameLength, 'is too long'))),
    system: v.exactOptional(text),
    sampling: v.exactOptional(asInRequests(section(SamplingSchema.entries))),
    stop: v.exactOptional(asInRequests(stop.wrapped)),
    max_tokens: v.exactOptional(asInRequests(max_tokens.wrapped)),
    reasoning: v.exactOptional(v.picklist(REASONING_EFFORTS, `must be one of ${REASONING_EFFORTS.join(', ')}`)),
    repetition_guard: v.exactOptional(repetitionGuard),
    lora: v.exactOptional(asInRequests(v.pipe(v.array(section(LoraSchema.entries)), v.maxLength(LIMITS.lora)))),
    keep_alive: v.exactOptional(
      v.config(KeepAliveSchema.wrapped, { message: 'must be seconds, or a duration such as 5m; -1: forever' }),
    ),
    context_length: v.exactOptional(contextLength),
    cache_type: v.exactOptional(cacheType),
    gpu_layers: v.exactOptional(gpuLayers),
    main_gpu: v.exactOptional(mainGpu),
    tensor_split: v.exactOptional(tensorSplit),
    cpu_experts: v.exactOptional(cpuExperts),
    /** Draft model; null: none. */
    draft: v.exactOptional(v.nullable(text)),
  }),
);

/** The names are typed apart (`modelNamesIn`): a type for both would make each setting a name, too. */
export type ModelsSection = {
  readonly dir?: string;
  readonly memory_budget_bytes?: number;
  readonly keep_alive_seconds: number;
};

export const ModelsSchema = v.exactOptional(
  v.pipe(
    object,
    v.objectWithRest(SETTINGS, NamedModelSchema),
    v.rawCheck(({ dataset, addIssue }) => {
      if (!dataset.typed) return;
      for (const [name, settings] of namesIn(dataset.value)) {
        const message = problemOfName(name, dataset.value);
        if (message === undefined) continue;
        const path = { type: 'object', origin: 'value', input: dataset.value, key: name, value: settings } as const;
        addIssue({ message, path: [path] });
      }
    }),
  ) as unknown as v.GenericSchema<Partial<ModelsSection>, ModelsSection>,
  {},
);

/** Names of models in the section, with their settings. */
export function modelNamesIn(models: ModelsSection): ModelNames {
  return Object.fromEntries(namesIn(models)) as ModelNames;
}

/** True if `key` of the section is a setting and no name of a model. */
export function isSettingOfModels(key: string): boolean {
  return Object.hasOwn(SETTINGS, key);
}

function namesIn(models: object): [name: string, settings: unknown][] {
  return Object.entries(models).filter(([key]) => !isSettingOfModels(key));
}

function problemOfName(name: string, models: object): string | undefined {
  if (!isModelName(name)) {
    return 'cannot be the name of a model: up to 128 letters, digits and . _ - : / @, a letter or digit first and last; `default` is taken';
  }
  const twin = namesIn(models).find(([each]) => each !== name && each.toLowerCase() === name.toLowerCase());
  return twin === undefined ? undefined : `is the same name as "${twin[0]}": case is ignored`;
}

/** Names whose `from` leads to no model: in a circle, or too far. */
export function endlessNames(models: ModelsSection): { readonly name: string; readonly problem: string }[] {
  const names = modelNamesIn(models);
  return Object.keys(names).flatMap((name) => {
    const { problem } = chainOf(names, name);
    return problem === undefined ? [] : [{ name, problem }];
  });
}

/** Names whose settings choose GPUs in two ways. */
export function namesOfTwoGpuChoices(models: ModelsSection): string[] {
  return Object.entries(modelNamesIn(models)).flatMap(([name, settings]) => (choosesGpusTwice(settings) ? [name] : []));
}

/** True if there is one GPU, and shares of all of them. */
export function choosesGpusTwice({ main_gpu, tensor_split }: Pick<LoadSettings, 'main_gpu' | 'tensor_split'>): boolean {
  return main_gpu !== undefined && tensor_split !== undefined;
}
