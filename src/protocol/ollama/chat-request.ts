/** `POST /api/chat`: converts Ollama's request to ours. */
import * as v from 'valibot';
import { LIMITS, ToolSchema } from '../generate.ts';
import { parse } from '../validate.ts';
import { OllamaMessageSchema, toMessages } from './messages.ts';
import { COMMON, fieldsOf, toCommon, type OllamaCall } from './request.ts';

export const OllamaChatSchema = v.object({
  ...COMMON,
  messages: v.exactOptional(v.pipe(v.array(OllamaMessageSchema), v.maxLength(LIMITS.messages)), []),
  tools: v.exactOptional(
    v.pipe(
      v.array(v.object({ type: v.exactOptional(v.literal('function')), function: v.object(ToolSchema.entries) })),
      v.maxLength(LIMITS.tools),
    ),
    [],
  ),
});

/** Throws INVALID_REQUEST with `param`. */
export function parseOllamaChat(body: unknown): OllamaCall {
  const fields = fieldsOf(body);
  const call = parse(OllamaChatSchema, withoutNulls(fields));
  const common = toCommon(call);
  const messages = toMessages(call.messages);
  return {
    model: call.model,
    request:
      messages.length === 0
        ? null
        : {
            ...common,
            messages,
            ...(call.tools.length === 0 ? {} : { tools: call.tools.map((tool) => tool.function) }),
          },
    turns: null,
    keepAliveSeconds: call.keep_alive,
    stream: call.stream,
  };
}

/** Fields of the client's own in which null is a value. */
const OPAQUE = new Set(['arguments', 'parameters', 'format']);

/** Copy without the fields that are null, at any depth. */
function withoutNulls(value: unknown): unknown {
  if (typeof value !== 'object' || value === null) return value;
  if (Array.isArray(value)) return value.map(withoutNulls);
  const present = Object.entries(value).filter(([, each]) => each !== null);
  return Object.fromEntries(present.map(([name, each]) => [name, OPAQUE.has(name) ? each : withoutNulls(each)]));
}
