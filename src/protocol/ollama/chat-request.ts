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
  if (Array.isArray(fields['messages'])) fields['messages'] = fields['messages'].map(withoutNulls);
  const call = parse(OllamaChatSchema, fields);
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

function withoutNulls(value: unknown): unknown {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return value;
  return Object.fromEntries(Object.entries(value).filter(([, each]) => each !== null));
}
