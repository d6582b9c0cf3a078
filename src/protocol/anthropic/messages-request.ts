/**
 * `POST /v1/messages` and `/v1/messages/count_tokens`: converts Anthropic's format to our request.
 *
 * Unknown fields are ignored, and so are beta headers, `metadata`, `service_tier`, `speed`, `inference_geo`,
 * `diagnostics`, `cache_control` (every prompt is cached) and `context_management` (an economy that the client can do
 * without). Fields that would change the answer but are not supported are refused by name. null means absent.
 * Extensions: `route` and `fallback` (docs/routing.md), `priority`, `truncate`, `context_length`, `keep_alive` and
 * others of our chat completions.
 */
import * as v from 'valibot';
import { GenerateRequestSchema, LIMITS, SamplingSchema, type Format, type GenerateRequest } from '../generate.ts';
import { given } from '../given.ts';
import { KeepAliveSchema } from '../keep-alive.ts';
import { clientFields, invalid, parse } from '../validate.ts';
import { toMessages, type Place } from './messages.ts';
import type { Places } from './names.ts';
import { toSystem } from './system.ts';
import { EffortSchema, showsThinking, ThinkingSchema, toReasoning } from './thinking.ts';
import { ToolFieldsSchema, toTools } from './tools.ts';

export interface MessagesCall {
  readonly request: GenerateRequest;
  readonly stream: boolean;
  /** False: the answer has thinking blocks without their text. */
  readonly showsThinking: boolean;
  /** 0: the prompt is only computed (warm-up.ts). */
  readonly maxTokens: number;
  /** Where the fields of `request` come from, for errors. */
  readonly places: Places;
}

const SameSchema = v.pick(GenerateRequestSchema, [
  'truncate',
  'repetition_guard',
  'chat_template_kwargs',
  'route',
  'fallback',
  'priority',
  'context_length',
  'store',
]);
const SettingsSchema = v.pick(SamplingSchema, ['temperature', 'top_k', 'top_p', 'min_p', 'seed']);

const JsonFormatSchema = v.object({ type: v.literal('json_schema'), schema: v.record(v.string(), v.unknown()) });

/** All fields but `max_tokens`, which counting tokens does not need. */
export const PromptFieldsSchema = v.object({
  model: GenerateRequestSchema.entries.model,
  messages: v.pipe(
    v.array(
      v.object({
        role: v.picklist(['user', 'assistant', 'system']),
        content: v.unknown(),
        clear_at: v.nullish(v.picklist(['next_user_message', 'never'])),
      }),
    ),
    v.minLength(1),
    v.maxLength(LIMITS.messages),
  ),
  /** A string or SystemBlocksSchema. */
  system: v.exactOptional(v.unknown()),
  stop_sequences: GenerateRequestSchema.entries.stop,
  ...ToolFieldsSchema.entries,
  thinking: v.exactOptional(ThinkingSchema),
  output_config: v.exactOptional(v.object({ effort: v.nullish(EffortSchema), format: v.nullish(JsonFormatSchema) })),
  /** Older name of `output_config.format`. */
  output_format: v.exactOptional(JsonFormatSchema),
  stream: v.exactOptional(v.boolean(), false),
  keep_alive: KeepAliveSchema,
  ...SettingsSchema.entries,
  ...SameSchema.entries,
});
type PromptFields = v.InferOutput<typeof PromptFieldsSchema>;

export const MessagesFieldsSchema = v.object({
  max_tokens: v.pipe(v.number(), v.integer(), v.minValue(0), v.maxValue(LIMITS.maxTokens)),
});

/** Throws INVALID_REQUEST with `param`. */
export function parseMessages(body: unknown): MessagesCall {
  const fields = clientFields(body);
  if (fields['compaction'] !== undefined)
    throw invalid('compaction', 'is not supported: ask for a summary in a message');
  const { max_tokens } = parse(MessagesFieldsSchema, fields);
  const { call, request, places } = parsePrompt(fields);
  return {
    request: { ...request, max_tokens: Math.max(1, max_tokens) },
    stream: call.stream,
    showsThinking: showsThinking(call.thinking),
    maxTokens: max_tokens,
    places,
  };
}

/** `POST /v1/messages/count_tokens`: the same without `max_tokens`. Throws INVALID_REQUEST with `param`. */
export function parseCountTokens(body: unknown): Pick<MessagesCall, 'request' | 'places'> {
  return parsePrompt(clientFields(body));
}

interface Prompt {
  readonly call: PromptFields;
  readonly request: GenerateRequest;
  readonly places: Places;
}

function parsePrompt(fields: Readonly<Record<string, unknown>>): Prompt {
  refuseUnsupported(fields);
  const call = parse(PromptFieldsSchema, fields);
  const system = toSystem(call.system);
  const messages = toMessages(call.messages, system !== '');
  const tools = toTools(call, new Set(messages.flatMap(({ loads = [] }) => loads)));
  const format = formatOf(call);
  return {
    call,
    request: {
      ...parse(SameSchema, call),
      messages: [
        ...(system === '' ? [] : [{ role: 'system' as const, content: system }]),
        ...messages.map(({ message }) => message),
      ],
      sampling: parse(SettingsSchema, call),
      stop: call.stop_sequences,
      ...tools.fields,
      ...toReasoning(call.thinking, call.output_config?.effort ?? undefined),
      ...given({
        model: call.model,
        format: format?.format,
        keep_alive_seconds: call.keep_alive,
      }),
    },
    places: {
      messages: [...(system === '' ? [] : [SYSTEM]), ...messages.map(({ place }) => place)],
      tools: tools.places,
      format: format?.place ?? 'output_config.format',
    },
  };
}

const SYSTEM: Place = { message: 'system', parts: [], calls: [] };

function formatOf({ output_config, output_format }: PromptFields): { format: Format; place: string } | null {
  const inner = output_config?.format ?? undefined;
  if (inner !== undefined) return { format: inner, place: 'output_config.format' };
  return output_format === undefined ? null : { format: output_format, place: 'output_format' };
}

function refuseUnsupported({ mcp_servers, container, thread }: Readonly<Record<string, unknown>>): void {
  const isEmpty = Array.isArray(mcp_servers) && mcp_servers.length === 0;
  if (mcp_servers !== undefined && !isEmpty) throw invalid('mcp_servers', 'are not supported: svc contacts none');
  if (container !== undefined) throw invalid('container', 'is not supported: svc runs no code');
  if (thread !== undefined)
    throw invalid('thread', 'is not supported: send all messages; their computed state is reused');
}
