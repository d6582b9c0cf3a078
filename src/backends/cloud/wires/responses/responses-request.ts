/**
 * Converts our request to OpenAI's Responses API. The whole conversation is sent each time and not stored there
 * (`store`). The API has no stop strings, seed or penalties: a request with one is refused.
 */
import type { Format, GenerateRequest, Message } from '../../../../protocol/generate.ts';
import { given } from '../../../../protocol/given.ts';
import { invalid } from '../../../../protocol/validate.ts';
import { imageUrl, schemaOf } from '../chat-completions/chat-completions-request.ts';
import { hasTools, plainText, withoutSounds, type SilentPart } from '../../message-parts.ts';
import type { Quirks } from '../../provider.ts';
import { knownSampling, refuse } from '../../wishes.ts';

const KNOWN_SAMPLING = ['temperature', 'top_p'] as const;

/** Throws INVALID_REQUEST with `param`. */
export function responsesBody(request: GenerateRequest, model: string, quirks: Quirks): object {
  const { messages, max_tokens: maxTokens, format, reasoning_effort: effort, logprobs } = request;
  const { unsupported = [] } = quirks;
  const body = {
    model,
    input: messages.flatMap((message, index) => toItems(message, `messages[${String(index)}]`)),
    stream: true,
    store: false,
    ...given({ max_output_tokens: maxTokens }),
    ...knownSampling(
      request.sampling,
      KNOWN_SAMPLING.filter((name) => !unsupported.includes(name)),
    ),
    ...toolFields(request),
    ...(format === undefined ? {} : { text: { format: formatOf(format) } }),
    ...(effort === undefined ? {} : { reasoning: effort === 'none' ? { effort } : { effort, summary: 'auto' } }),
    ...(logprobs === undefined ? {} : { top_logprobs: logprobs, include: ['message.output_text.logprobs'] }),
  };
  refuse(request, body, ['stop', ...unsupported]);
  return body;
}

function toolFields({ tools = [], tool_choice: choice, parallel_tool_calls }: GenerateRequest): object {
  if (!hasTools(tools, choice)) return {};
  return {
    // `strict`, the default here, accepts only a subset of JSON Schema.
    tools: tools.map((tool) => ({ type: 'function', ...tool, strict: false })),
    ...(choice === undefined
      ? {}
      : { tool_choice: typeof choice === 'string' ? choice : { type: 'function', name: choice.name } }),
    ...given({ parallel_tool_calls }),
  };
}

function formatOf(format: Format): object {
  switch (format.type) {
    case 'json_object':
      return { type: 'json_object' };
    case 'json_schema':
      return { type: 'json_schema', ...schemaOf(format) };
    case 'grammar':
      throw invalid('format', 'must be json_schema or json_object: this provider does not support grammars');
  }
}

function toItems({ role, content, tool_calls: calls = [], tool_call_id: id }: Message, param: string): object[] {
  switch (role) {
    case 'system':
      return [{ role, content: plainText(content, `${param}.content`) }];
    case 'user':
      return [{ role, content: toContent(content, `${param}.content`) }];
    case 'tool':
      if (id === undefined) throw invalid(`${param}.tool_call_id`, 'is required');
      return [{ type: 'function_call_output', call_id: id, output: toContent(content, `${param}.content`) }];
    case 'assistant': {
      const text = plainText(content, `${param}.content`);
      return [
        ...(text === '' && calls.length > 0 ? [] : [{ role, content: text }]),
        ...calls.map((call) => ({
          type: 'function_call',
          call_id: call.id,
          name: call.name,
          arguments: call.arguments,
        })),
      ];
    }
  }
}

function toContent(content: Message['content'], param: string): unknown {
  const parts = withoutSounds(content, param);
  return typeof parts === 'string' ? parts : parts.map(toPart);
}

function toPart(part: SilentPart): object {
  return part.type === 'text'
    ? { type: 'input_text', text: part.text }
    : { type: 'input_image', detail: 'auto', image_url: imageUrl(part) };
}
