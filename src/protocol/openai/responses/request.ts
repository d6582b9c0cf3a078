/**
 * `POST /v1/responses`: converts OpenAI's format to our request; input.ts converts the items, tools.ts the tools.
 *
 * Unknown fields are ignored, and so are those that change nothing here: `text.verbosity`, `service_tier`,
 * `max_tool_calls` (of tools that OpenAI runs), `prompt_cache_key` and the other `prompt_cache_*` (the prefix cache
 * needs none), `stream_options` (no obfuscation is sent), and what `include` asks of tools that svc does not have.
 * Fields that would change the answer but are not supported are refused by name. null means absent. Our extensions are
 * those of chat completions.
 */
import * as v from 'valibot';
import {
  FormatSchema,
  GenerateRequestSchema,
  LIMITS,
  REASONING_EFFORTS,
  type Format,
  type GenerateRequest,
} from '../../generate.ts';
import { given } from '../../given.ts';
import { KeepAliveSchema } from '../../keep-alive.ts';
import { clientFields, invalid, parse, renamed, renamedTo, stopList, type FieldNames } from '../../validate.ts';
import { samplingOf, type Unsupported } from '../shared-fields.ts';
import { ignoredTypes } from './foreign-items.ts';
import { itemsOf, type Placed } from './items.ts';
import { ToolFieldsSchema, toolsOf, type RequestTools } from './tools.ts';

/** A request without its messages, which may need stored items. */
export interface ResponsesCall {
  readonly request: Omit<GenerateRequest, 'messages'>;
  readonly input: readonly Placed[];
  /** Types of the items that `input` lacks (foreign-items.ts). */
  readonly ignoredItems: readonly string[];
  readonly instructions: string | null;
  readonly previousId: string | null;
  readonly stream: boolean;
  /** True: the answer continues without its connection, and is read later. */
  readonly background: boolean;
  /** undefined: as the daemon is configured. */
  readonly store: boolean | undefined;
  /** True: reasoning items have `encrypted_content`. */
  readonly wantsEncrypted: boolean;
  /** True: reasoning is sent as a summary, not as text. */
  readonly wantsSummary: boolean;
  readonly tools: RequestTools;
  readonly settings: ResponseSettings;
}

/** Fields that the response repeats. */
export interface ResponseSettings {
  readonly instructions: string | null;
  readonly max_output_tokens: number | null;
  readonly metadata: Readonly<Record<string, string>>;
  readonly parallel_tool_calls: boolean;
  readonly previous_response_id: string | null;
  readonly prompt_cache_key: string | null;
  readonly reasoning: { readonly effort: string | null; readonly summary: string | null };
  readonly safety_identifier: string | null;
  readonly temperature: number;
  readonly text: { readonly format: object; readonly verbosity: string };
  readonly tool_choice: unknown;
  readonly tools: readonly object[];
  readonly top_logprobs: number;
  readonly top_p: number;
  readonly truncation: string;
  readonly user: string | null;
  readonly presence_penalty: number;
  readonly frequency_penalty: number;
}

const { model, max_tokens, logprobs } = GenerateRequestSchema.entries;
const ExtensionsSchema = v.pick(GenerateRequestSchema, [
  'stop',
  'repetition_guard',
  'lora',
  'reasoning_budget_tokens',
  'chat_template_kwargs',
  'route',
  'fallback',
  'priority',
  'context_length',
]);
const label = v.exactOptional(v.pipe(v.string(), v.maxLength(LIMITS.metadataValueLength)));

const [jsonObject, jsonSchema] = FormatSchema.options;

/** `text.format`. */
export const TextFormatSchema = v.variant('type', [
  v.looseObject({ type: v.literal('text') }),
  jsonObject,
  v.object({ ...jsonSchema.entries, strict: v.nullish(v.boolean()) }),
]);

export const ResponsesSchema = v.object({
  model,
  input: v.exactOptional(v.union([v.string(), v.pipe(v.array(v.looseObject({})), v.maxLength(LIMITS.messages))]), []),
  instructions: v.exactOptional(v.string()),
  previous_response_id: v.exactOptional(v.pipe(v.string(), v.maxLength(LIMITS.itemIdLength))),
  max_output_tokens: max_tokens,
  top_logprobs: logprobs,
  include: v.exactOptional(v.pipe(v.array(v.string()), v.maxLength(64)), []),
  ...ToolFieldsSchema.entries,
  text: v.exactOptional(
    v.looseObject({ format: v.nullish(TextFormatSchema), verbosity: v.nullish(v.picklist(['low', 'medium', 'high'])) }),
    {},
  ),
  reasoning: v.exactOptional(
    v.looseObject({
      /** `max` is `xhigh` here: no limit. */
      effort: v.nullish(v.picklist([...REASONING_EFFORTS, 'max'])),
      summary: v.nullish(v.picklist(['auto', 'concise', 'detailed'])),
    }),
    {},
  ),
  metadata: v.exactOptional(
    v.pipe(
      v.record(
        v.pipe(v.string(), v.maxLength(LIMITS.metadataKeyLength)),
        v.pipe(v.string(), v.maxLength(LIMITS.metadataValueLength)),
      ),
      v.maxEntries(LIMITS.metadata),
    ),
    {},
  ),
  truncation: v.exactOptional(v.picklist(['auto', 'disabled']), 'disabled'),
  user: label,
  prompt_cache_key: label,
  safety_identifier: label,
  store: v.exactOptional(v.boolean()),
  background: v.exactOptional(v.boolean(), false),
  stream: v.exactOptional(v.boolean(), false),
  ...ExtensionsSchema.entries,
  keep_alive: KeepAliveSchema,
});
type Fields = v.InferOutput<typeof ResponsesSchema>;

/** Throws INVALID_REQUEST with `param`. */
export function parseResponses(body: unknown): ResponsesCall {
  const fields = clientFields(body);
  for (const [name, [asksNothing, what]] of UNSUPPORTED) {
    if (fields[name] !== undefined && !asksNothing(fields[name])) throw invalid(name, what);
  }
  if (fields['stop'] !== undefined) fields['stop'] = stopList(fields['stop']);
  const call = parse(ResponsesSchema, fields);
  const sampling = samplingOf(fields);
  const tools = toolsOf(call);
  const { effort } = call.reasoning;
  return {
    request: {
      ...parse(ExtensionsSchema, call),
      ...tools.fields,
      sampling,
      ...given({
        model: call.model,
        max_tokens: call.max_output_tokens,
        truncate: call.truncation === 'auto' ? true : undefined,
        format: formatOf(call),
        reasoning_effort: effort === 'max' ? ('xhigh' as const) : (effort ?? undefined),
        logprobs: logprobsOf(call),
        keep_alive_seconds: call.keep_alive,
        // As for chat completions: nothing of it is written to disk, the prefix cache's files included.
        store: call.store,
      }),
    },
    input: itemsOf(call.input),
    ignoredItems: ignoredTypes(call.input),
    instructions: call.instructions ?? null,
    previousId: call.previous_response_id ?? null,
    stream: call.stream,
    background: call.background,
    store: call.store,
    wantsEncrypted: call.include.includes('reasoning.encrypted_content'),
    wantsSummary: (call.reasoning.summary ?? null) !== null,
    tools,
    settings: settingsOf(call, sampling),
  };
}

function settingsOf(call: Fields, sampling: GenerateRequest['sampling']): ResponseSettings {
  const { text, reasoning } = call;
  return {
    instructions: call.instructions ?? null,
    max_output_tokens: call.max_output_tokens ?? null,
    metadata: call.metadata,
    parallel_tool_calls: call.parallel_tool_calls ?? true,
    previous_response_id: call.previous_response_id ?? null,
    prompt_cache_key: call.prompt_cache_key ?? null,
    reasoning: { effort: reasoning.effort ?? null, summary: reasoning.summary ?? null },
    safety_identifier: call.safety_identifier ?? null,
    // 1, OpenAI's default, where the request leaves it to the model: clients require a number.
    temperature: sampling.temperature ?? 1,
    text: { format: text.format ?? { type: 'text' }, verbosity: text.verbosity ?? 'medium' },
    tool_choice: call.tool_choice ?? 'auto',
    tools: call.tools.map(withAllFields),
    top_logprobs: call.top_logprobs ?? 0,
    top_p: sampling.top_p ?? 1,
    truncation: call.truncation,
    user: call.user ?? null,
    presence_penalty: sampling.presence_penalty ?? 0,
    frequency_penalty: sampling.frequency_penalty ?? 0,
  };
}

/** Clients require these fields of a function in a response, though they may leave them out of a request. */
function withAllFields(tool: Fields['tools'][number]): object {
  return tool.type === 'function' ? { description: null, parameters: null, strict: null, ...tool } : tool;
}

function logprobsOf({ include, top_logprobs: top }: Fields): number | undefined {
  if (include.includes('message.output_text.logprobs')) return top ?? 0;
  return top === 0 ? undefined : top;
}

function formatOf({ text: { format } }: Fields): Format | undefined {
  if (format === undefined || format === null || format.type === 'text') return undefined;
  if (format.type === 'json_object') return format;
  const { strict, ...rest } = format;
  return { ...rest, ...given({ strict: strict ?? undefined }) };
}

const NAMES: readonly FieldNames[] = [
  { ours: 'format', theirs: 'text.format' },
  { ours: 'max_tokens', theirs: 'max_output_tokens' },
  { ours: 'reasoning_effort', theirs: 'reasoning.effort' },
  { ours: 'logprobs', theirs: 'top_logprobs' },
  { ours: 'truncate', theirs: 'truncation' },
];

/** Renames our fields in an error to the caller's. `places`: for each message, the place of its item. */
export function inTheirWords(error: unknown, { tools }: ResponsesCall, places: readonly string[]): unknown {
  const other = renamedTo(error, NAMES);
  if (other !== error) return other;
  const { param = '' } = error as { readonly param?: unknown };
  const [ours, list, index, end] = /^(messages|tools)\[(\d+)\](\.tool_call_id$)?/.exec(String(param)) ?? [];
  const place = (list === 'tools' ? tools.places : places)[Number(index)];
  if (ours === undefined || place === undefined) return error;
  return renamed(error, ours, end === undefined ? place : `${place}.call_id`);
}

const never = (): boolean => false;
const isEmptyList = (value: unknown): boolean => Array.isArray(value) && value.length === 0;

const UNSUPPORTED: ReadonlyMap<string, Unsupported> = new Map<string, Unsupported>([
  ['conversation', [never, 'is not supported: use previous_response_id']],
  ['prompt', [never, 'is not supported: send the text itself']],
  ['context_management', [isEmptyList, 'is not supported: use truncation']],
  ['moderation', [never, 'is not supported']],
]);
