/**
 * What the requests of `/api/chat` and `/api/generate` have in common. null means absent; `name` is the older name of
 * `model`. Unknown fields are ignored. Extensions: `route`, `fallback`, `priority` and `truncate` (docs/http.md).
 */
import * as v from 'valibot';
import { GenerateRequestSchema, REASONING_EFFORTS, type GenerateRequest, type Message } from '../generate.ts';
import { given } from '../given.ts';
import { KeepAliveSchema } from '../keep-alive.ts';
import { invalid, parse, presentFields } from '../validate.ts';
import { nameSchema } from './names.ts';
import { toSettings } from './options.ts';

/** A call of `/api/chat` or `/api/generate`. */
export interface OllamaCall {
  /** As the client spells it; the answer repeats it. */
  readonly model: string;
  /** Without `model`. null: the model is only loaded or, with a `keepAliveSeconds` of 0, unloaded. */
  readonly request: GenerateRequest | null;
  /** Messages with which the `context` of the answer begins. null: the answer has none. */
  readonly turns: readonly Message[] | null;
  readonly keepAliveSeconds: number | undefined;
  readonly stream: boolean;
}

const jsonObject = v.record(v.string(), v.unknown());
const SameSchema = v.pick(GenerateRequestSchema, ['route', 'fallback', 'priority', 'truncate']);

/** Fields of both requests. */
export const COMMON = {
  model: nameSchema,
  stream: v.exactOptional(v.boolean(), true),
  keep_alive: KeepAliveSchema,
  /** true: on. An effort: how much. */
  think: v.exactOptional(v.union([v.boolean(), v.picklist([...REASONING_EFFORTS, 'max', ''])])),
  /** `json`, or a JSON Schema. */
  format: v.exactOptional(v.union([v.picklist(['json', '']), jsonObject])),
  options: v.exactOptional(jsonObject, {}),
  logprobs: v.exactOptional(v.boolean(), false),
  top_logprobs: GenerateRequestSchema.entries.logprobs,
  ...SameSchema.entries,
};
type Common = v.InferOutput<v.ObjectSchema<typeof COMMON, undefined>>;

/**
 * Copy of a body without what counts as absent, `name` as `model`. Throws INVALID_REQUEST unless it is an object, and
 * for a `name` that cannot be one, also beside a `model`, which takes precedence.
 */
export function fieldsOf(body: unknown): Record<string, unknown> {
  const { name, ...fields } = presentFields(body);
  if (name !== undefined) parse(nameSchema, name, 'name');
  return { ...given({ model: name }), ...fields };
}

/** The fields of a request that follow from those in common. Throws INVALID_REQUEST with `param`. */
export function toCommon(call: Common): Omit<GenerateRequest, 'messages'> {
  const { think, format, logprobs, top_logprobs = 0, keep_alive } = call;
  if (top_logprobs > 0 && !logprobs) throw invalid('top_logprobs', 'requires logprobs: true');
  return {
    ...parse(SameSchema, call),
    ...toSettings(call.options),
    ...given({
      reasoning_effort: effortOf(think),
      format: formatOf(format),
      logprobs: logprobs ? top_logprobs : undefined,
      keep_alive_seconds: keep_alive,
    }),
  };
}

function effortOf(think: Common['think']): GenerateRequest['reasoning_effort'] {
  if (think === undefined || think === '') return undefined;
  if (think === 'max') return 'xhigh';
  if (typeof think === 'string') return think;
  return think ? 'high' : 'none';
}

function formatOf(format: Common['format']): GenerateRequest['format'] {
  if (format === undefined || format === '') return undefined;
  // As in Ollama, which enforces what llama.cpp can.
  return format === 'json' ? { type: 'json_object' } : { type: 'json_schema', schema: format, strict: false };
}
