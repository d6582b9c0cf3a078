/**
 * Converts our request to Gemini's generateContent. Fields that the API does not support are refused by name; settings
 * at a value without effect are omitted.
 *
 * All system messages are joined before the conversation. Tool results refer to the function's name, which is looked
 * up by the call's id.
 */
import type { GenerateRequest, Message, Tool, ToolCall } from '../../../../protocol/generate.ts';
import { given } from '../../../../protocol/given.ts';
import { invalid } from '../../../../protocol/validate.ts';
import { argumentsOf, hasTools, joinedSystem, plainText, withoutSounds, type SilentPart } from '../../message-parts.ts';
import type { Quirks } from '../../provider.ts';
import { knownSampling, refuse } from '../../wishes.ts';

/** Models before Gemini 3 have a token budget for thinking. These are Google's own values for efforts. */
const BUDGETS = { none: 0, minimal: 1024, low: 1024, medium: 8192, high: 24_576, xhigh: 24_576 } as const;
/** Since Gemini 3; there is no level above `high`. */
const LEVELS = { minimal: 'MINIMAL', low: 'LOW', medium: 'MEDIUM', high: 'HIGH', xhigh: 'HIGH' } as const;
const FIRST_WITH_LEVELS = 3;

/**
 * Since Gemini 3 the first call of a turn needs the signature of its thought, which our messages cannot hold. This is
 * Google's documented value for a missing signature.
 */
const NO_SIGNATURE = 'skip_thought_signature_validator';

/** The API requires the media type of a URL. */
const IMAGE_TYPES: ReadonlyMap<string, string> = new Map([
  ['png', 'image/png'],
  ['jpg', 'image/jpeg'],
  ['jpeg', 'image/jpeg'],
  ['webp', 'image/webp'],
  ['gif', 'image/gif'],
]);

type Part = Readonly<Record<string, unknown>>;
interface Content {
  readonly role: 'user' | 'model';
  readonly parts: Part[];
}

export function geminiBody(request: GenerateRequest, model: string, quirks: Quirks): object {
  const { messages, tools = [] } = request;
  const generation = generationOf(model);
  const system = joinedSystem(messages);
  const generationConfig = configOf(request, generation);
  const body = {
    contents: contents(messages, generation >= FIRST_WITH_LEVELS),
    ...(system === '' ? {} : { systemInstruction: { parts: [{ text: system }] } }),
    ...(tools.length === 0 ? {} : { tools: [{ functionDeclarations: tools.map(toDeclaration) }] }),
    ...toolConfig(request),
    ...(Object.keys(generationConfig).length === 0 ? {} : { generationConfig }),
  };
  refuse(request, { ...body, ...generationConfig }, ['logprobs', ...(quirks.unsupported ?? [])]);
  return body;
}

/** `gemini-2.5-flash`: 2. A name without a number, for example `gemini-flash-latest`, counts as the newest. */
function generationOf(model: string): number {
  return Number(/gemini-(\d+)/.exec(model)?.[1] ?? Infinity);
}

/** Roles must alternate: consecutive messages of a role are merged. Tool results have the user's role. */
function contents(messages: readonly Message[], wantsSignatures: boolean): Content[] {
  const all: Content[] = [];
  const names = new Map<string, string>();
  for (const [index, message] of messages.entries()) {
    if (message.role === 'system') continue;
    const param = `messages[${String(index)}]`;
    // An id may be reused in a later turn: the last call with it counts.
    for (const call of message.tool_calls ?? []) names.set(call.id, call.name);
    const role = message.role === 'assistant' ? 'model' : 'user';
    const parts =
      message.role === 'tool' ? [toResult(message, names, param)] : turnParts(message, param, wantsSignatures);
    const last = all.at(-1);
    if (last?.role === role) last.parts.push(...parts);
    else if (parts.length > 0) all.push({ role, parts });
  }
  if (all.length === 0) throw invalid('messages', 'must contain a message that is neither empty nor a system message');
  return all;
}

function turnParts({ content, tool_calls: calls = [] }: Message, param: string, wantsSignatures: boolean): Part[] {
  return [
    ...contentParts(content, `${param}.content`),
    ...calls.map((call, index) => ({
      ...toCall(call),
      ...(wantsSignatures && index === 0 ? { thoughtSignature: NO_SIGNATURE } : {}),
    })),
  ];
}

function contentParts(content: Message['content'], param: string): Part[] {
  const parts = withoutSounds(content, param);
  if (typeof parts === 'string') return parts === '' ? [] : [{ text: parts }];
  return parts.flatMap((part, index) =>
    part.type === 'text' && part.text === '' ? [] : [toPart(part, `${param}[${String(index)}]`)],
  );
}

function toPart(part: SilentPart, param: string): Part {
  switch (part.type) {
    case 'text':
      return { text: part.text };
    case 'image':
      return { inlineData: { mimeType: part.media_type, data: part.data } };
    case 'image_url':
      return { fileData: { mimeType: typeOf(part.url, `${param}.url`), fileUri: part.url } };
  }
}

function typeOf(url: string, param: string): string {
  const path = URL.canParse(url) ? new URL(url).pathname : '';
  const type = IMAGE_TYPES.get((/\.([a-z]+)$/i.exec(path)?.[1] ?? '').toLowerCase());
  if (type !== undefined) return type;
  throw invalid(param, 'must end in .png, .jpg, .webp or .gif for this provider; or send the image as a data URL');
}

function toCall(call: ToolCall): Part {
  return { functionCall: { id: call.id, name: call.name, args: argumentsOf(call) } };
}

function toResult({ content, tool_call_id: id }: Message, names: ReadonlyMap<string, string>, param: string): Part {
  if (id === undefined) throw invalid(`${param}.tool_call_id`, 'is required');
  const name = names.get(id);
  if (name === undefined) throw invalid(`${param}.tool_call_id`, 'does not match any tool call of an earlier message');
  const at = `${param}.content`;
  const silent = withoutSounds(content, at);
  const parts: readonly SilentPart[] = typeof silent === 'string' ? [{ type: 'text', text: silent }] : silent;
  const images = parts.flatMap((part, index) =>
    part.type === 'text' ? [] : [toPart(part, `${at}[${String(index)}]`)],
  );
  return {
    functionResponse: {
      id,
      name,
      response: {
        output: plainText(
          parts.filter((part) => part.type === 'text'),
          at,
        ),
      },
      ...(images.length === 0 ? {} : { parts: images }),
    },
  };
}

function toDeclaration({ name, description, parameters }: Tool): object {
  return {
    name,
    ...given({ description }),
    ...(Object.keys(parameters).length === 0 ? {} : { parametersJsonSchema: parameters }),
  };
}

function toolConfig({ tools = [], tool_choice: choice, parallel_tool_calls: parallel }: GenerateRequest): object {
  if (!hasTools(tools, choice)) return {};
  if (parallel === false && choice !== 'none')
    throw invalid('parallel_tool_calls', 'must be true or absent for this provider');
  if (choice === undefined || choice === 'auto') return {};
  return { toolConfig: { functionCallingConfig: callingConfig(choice) } };
}

function callingConfig(choice: 'none' | 'required' | { name: string }): object {
  if (choice === 'none') return { mode: 'NONE' };
  return choice === 'required' ? { mode: 'ANY' } : { mode: 'ANY', allowedFunctionNames: [choice.name] };
}

function configOf(request: GenerateRequest, generation: number): object {
  const { max_tokens: maxTokens, sampling, stop } = request;
  const known = knownSampling(sampling, KNOWN_SAMPLING);
  // Without top_k a model uses its own default; the API has no value for "off".
  if (known.top_k === 0) throw invalid('top_k', 'must be at least 1 for this provider');
  return {
    ...given({ maxOutputTokens: maxTokens }),
    ...(stop.length === 0 ? {} : { stopSequences: stop }),
    ...Object.fromEntries(Object.entries(known).map(([name, value]) => [camelCase(name), value])),
    ...outputFormat(request),
    ...thinkingConfig(request, generation),
  };
}

const KNOWN_SAMPLING = ['temperature', 'top_p', 'top_k', 'seed', 'frequency_penalty', 'presence_penalty'] as const;

function camelCase(name: string): string {
  return name.replace(/_([a-z])/g, (_, letter: string) => letter.toUpperCase());
}

function outputFormat({ format }: GenerateRequest): object {
  switch (format?.type) {
    case undefined:
      return {};
    case 'json_object':
      return { responseMimeType: 'application/json' };
    case 'json_schema':
      return { responseMimeType: 'application/json', responseJsonSchema: format.schema };
    case 'grammar':
      throw invalid('format', 'must be json_schema or json_object: this provider does not support grammars');
  }
}

/** Set only on request: models without thinking refuse the whole setting. */
function thinkingConfig(
  { reasoning_effort: effort, reasoning_optional: isOptional }: GenerateRequest,
  generation: number,
): object {
  if (effort === undefined) return {};
  if (generation < FIRST_WITH_LEVELS) {
    return { thinkingConfig: { thinkingBudget: BUDGETS[effort], includeThoughts: effort !== 'none' } };
  }
  if (effort === 'none') {
    if (isOptional === true) return {};
    throw invalid('reasoning_effort', 'cannot be none: this model always thinks');
  }
  return { thinkingConfig: { thinkingLevel: LEVELS[effort], includeThoughts: true } };
}
