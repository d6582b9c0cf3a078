/**
 * Converts our request to Chat Completions. Besides OpenAI's fields it uses those that local servers have added (top_k,
 * min_p, repeat_penalty, grammar); `quirks` lists the fields that a server does not support.
 */
import type { Format, GenerateRequest, Message, Sampling } from '../../../../protocol/generate.ts';
import { given } from '../../../../protocol/given.ts';
import { invalid } from '../../../../protocol/validate.ts';
import { hasTools, plainText, withoutSounds, type SilentPart } from '../../message-parts.ts';
import type { Quirks } from '../../provider.ts';
import { knownSampling, refuse } from '../../wishes.ts';

/** Settings that OpenAI has, or most local servers. */
const KNOWN_SAMPLING = [
  'temperature',
  'top_k',
  'top_p',
  'min_p',
  'repeat_penalty',
  'frequency_penalty',
  'presence_penalty',
  'seed',
  'logit_bias',
] as const;

/** Throws INVALID_REQUEST with `param`. */
export function chatCompletionsBody(request: GenerateRequest, model: string, quirks: Quirks): object {
  const { messages, max_tokens: maxTokens, stop, format, reasoning_effort, logprobs } = request;
  const body = {
    model,
    messages: messages.map((message, index) => toMessage(message, index, quirks)),
    stream: true,
    ...(quirks.stream_usage === false ? {} : { stream_options: { include_usage: true } }),
    ...(maxTokens === undefined ? {} : { [quirks.max_tokens_field ?? 'max_tokens']: maxTokens }),
    ...samplingFields(request.sampling, quirks),
    ...(stop.length === 0 ? {} : { stop }),
    ...toolFields(request),
    ...(format === undefined ? {} : formatFields(format, quirks)),
    ...given({ reasoning_effort }),
    ...(logprobs === undefined ? {} : { logprobs: true, ...(logprobs === 0 ? {} : { top_logprobs: logprobs }) }),
  };
  refuse(request, body, quirks.unsupported ?? []);
  return body;
}

function samplingFields(sampling: Sampling, { unsupported = [], repeat_penalty_field: field }: Quirks): object {
  const known = KNOWN_SAMPLING.filter((name) => !unsupported.includes(name));
  const { logit_bias: biases, repeat_penalty: penalty, ...plain } = knownSampling(sampling, known);
  return {
    ...plain,
    ...(penalty === undefined ? {} : { [field ?? 'repeat_penalty']: penalty }),
    ...(biases === undefined || biases.length === 0 ? {} : { logit_bias: Object.fromEntries(biases) as object }),
  };
}

function toolFields({ tools = [], tool_choice: choice, parallel_tool_calls }: GenerateRequest): object {
  if (!hasTools(tools, choice)) return {};
  return {
    tools: tools.map((tool) => ({ type: 'function', function: tool })),
    ...(choice === undefined
      ? {}
      : { tool_choice: typeof choice === 'string' ? choice : { type: 'function', function: choice } }),
    ...given({ parallel_tool_calls }),
  };
}

function formatFields(format: Format, { grammar }: Quirks): object {
  switch (format.type) {
    case 'json_object':
      return { response_format: { type: 'json_object' } };
    case 'json_schema':
      return { response_format: { type: 'json_schema', json_schema: schemaOf(format) } };
    case 'grammar':
      if (grammar !== true)
        throw invalid('format', 'must be json_schema or json_object: this provider does not support grammars');
      return { grammar: format.grammar };
  }
}

/** Strict unless the caller sets it: otherwise the schema would not be enforced. */
export function schemaOf({ schema, name = 'answer', strict = true }: Extract<Format, { type: 'json_schema' }>): object {
  return { name, schema, strict };
}

function toMessage(message: Message, index: number, quirks: Quirks): object {
  const param = `messages[${String(index)}]`;
  const { role, content, tool_calls: calls = [], reasoning, tool_call_id: id } = message;
  switch (role) {
    case 'system':
      return { role, content: plainText(content, `${param}.content`) };
    case 'user':
      return { role, content: userContent(content, param, quirks) };
    case 'tool':
      if (id === undefined) throw invalid(`${param}.tool_call_id`, 'is required');
      return { role, tool_call_id: id, content: plainText(content, `${param}.content`) };
    case 'assistant': {
      const text = plainText(content, `${param}.content`);
      if (calls.length === 0) return { role, content: text };
      return {
        role,
        content: text === '' ? null : text,
        ...(quirks.replay_reasoning === true && reasoning !== undefined ? { reasoning_content: reasoning } : {}),
        tool_calls: calls.map((call) => ({
          id: call.id,
          type: 'function',
          function: { name: call.name, arguments: call.arguments },
        })),
      };
    }
  }
}

/** Text-only content is sent as a string, which every server accepts. */
function userContent(content: Message['content'], param: string, { unsupported = [] }: Quirks): unknown {
  if (typeof content === 'string' || content.every((part) => part.type === 'text')) return plainText(content, param);
  if (unsupported.some((name) => name === 'image' || name === 'image_url' || name === 'images')) {
    throw invalid(`${param}.content`, 'must be text: this provider does not support images');
  }
  const parts = withoutSounds(content, `${param}.content`);
  return typeof parts === 'string' ? parts : parts.map(toPart);
}

function toPart(part: SilentPart): object {
  if (part.type === 'text') return part;
  return { type: 'image_url', image_url: { url: imageUrl(part) } };
}

/** URL of an image; inline images become data URLs. */
export function imageUrl(part: Exclude<SilentPart, { type: 'text' }>): string {
  return part.type === 'image_url' ? part.url : `data:${part.media_type};base64,${part.data}`;
}
