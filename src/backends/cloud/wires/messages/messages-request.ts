/**
 * Converts our request to Anthropic's Messages API. Fields that the API does not support are refused by name; settings
 * at a value without effect are omitted.
 *
 * The API allows a system prompt only at the start: all system messages are joined there. Thinking is sent back only to
 * servers that accept it unsigned (`replay_reasoning`): Anthropic requires its signatures, which our messages cannot
 * hold.
 */
import type { GenerateRequest, Message, Sampling, ToolCall } from '../../../../protocol/generate.ts';
import { given } from '../../../../protocol/given.ts';
import { invalid } from '../../../../protocol/validate.ts';
import { claudeGeneration } from '../../claude-generation.ts';
import { argumentsOf, hasTools, joinedSystem, withoutSounds, type SilentPart } from '../../message-parts.ts';
import type { Quirks } from '../../provider.ts';
import { knownSampling, refuse } from '../../wishes.ts';

/**
 * `max_tokens` is required, and a model refuses a value above its maximum. Every current model allows this value; a
 * longer answer ends with `length`.
 */
const DEFAULT_MAX_TOKENS = 32_000;

/** The only values that models without sampling settings accept. */
const DEFAULTS: Readonly<Record<string, number>> = { temperature: 1, top_p: 1, top_k: 0 };

/** Thinking budgets in tokens. The API's minimum is 1024; at least half of max_tokens is left for the answer. */
const BUDGETS = { minimal: 1024, low: 4096, medium: 8192, high: 16_384, xhigh: 32_768 } as const;
const LEAST_BUDGET = 1024;

/** Efforts of models with adaptive thinking; there is none below `low`. */
const EFFORTS = { minimal: 'low', low: 'low', medium: 'medium', high: 'high', xhigh: 'xhigh' } as const;

type Block = Readonly<Record<string, unknown>> & { readonly type: string };
interface Turn {
  readonly role: 'user' | 'assistant';
  readonly content: Block[];
}

export function messagesBody(request: GenerateRequest, model: string, quirks: Quirks): object {
  const { messages, max_tokens: maxTokens = DEFAULT_MAX_TOKENS, stop, tools = [] } = request;
  const system = joinedSystem(messages);
  const generation = claudeGeneration(model);
  const { thinking, effort } = thinkingOf(request, maxTokens, generation.thinksByItself, quirks);
  const format = outputFormat(request);
  const body = {
    model,
    max_tokens: maxTokens,
    stream: true,
    ...(system === '' ? {} : { system }),
    messages: turns(messages, quirks),
    ...(stop.length === 0 ? {} : { stop_sequences: stop }),
    ...samplingOf(request.sampling, generation.samples),
    ...(tools.length === 0 ? {} : { tools: tools.map(toTool) }),
    ...toolChoice(request),
    ...given({ thinking }),
    ...(effort === undefined && format === undefined ? {} : { output_config: { effort, format } }),
  };
  refuse(request, body, ['logprobs', ...(quirks.unsupported ?? [])]);
  return body;
}

/** Roles must alternate: consecutive messages of a role are merged. Tool results have the user's role. */
function turns(messages: readonly Message[], quirks: Quirks): Turn[] {
  const all: Turn[] = [];
  for (const [index, message] of messages.entries()) {
    if (message.role === 'system') continue;
    const role = message.role === 'assistant' ? 'assistant' : 'user';
    const content = blocks(message, `messages[${String(index)}]`, quirks);
    const last = all.at(-1);
    if (last?.role === role) last.content.push(...content);
    else if (content.length > 0) all.push({ role, content });
  }
  if (all.length === 0) throw invalid('messages', 'must contain a message that is neither empty nor a system message');
  return all;
}

function blocks(message: Message, param: string, quirks: Quirks): Block[] {
  if (message.role === 'tool') return [toToolResult(message, param)];
  const { content, reasoning = '', tool_calls: calls = [] } = message;
  return [
    // Other servers do not check the signature, but some require the field.
    ...(quirks.replay_reasoning === true && reasoning !== ''
      ? [{ type: 'thinking', thinking: reasoning, signature: '' }]
      : []),
    ...contentBlocks(content, `${param}.content`),
    ...calls.map(toToolUse),
  ];
}

/** The API refuses texts that are empty or only white space. */
function contentBlocks(content: Message['content'], param: string): Block[] {
  const silent = withoutSounds(content, param);
  const parts: readonly SilentPart[] = typeof silent === 'string' ? [{ type: 'text', text: silent }] : silent;
  return parts.filter((part) => part.type !== 'text' || part.text.trim() !== '').map(toBlock);
}

function toBlock(part: SilentPart): Block {
  switch (part.type) {
    case 'text':
      return { type: 'text', text: part.text };
    case 'image':
      return { type: 'image', source: { type: 'base64', media_type: part.media_type, data: part.data } };
    case 'image_url':
      return { type: 'image', source: { type: 'url', url: part.url } };
  }
}

function toToolUse(call: ToolCall): Block {
  return { type: 'tool_use', id: toId(call.id), name: call.name, input: argumentsOf(call) };
}

function toToolResult({ content, tool_call_id: id }: Message, param: string): Block {
  if (id === undefined) throw invalid(`${param}.tool_call_id`, 'is required');
  const result = contentBlocks(content, `${param}.content`);
  return { type: 'tool_result', tool_use_id: toId(id), ...(result.length === 0 ? {} : { content: result }) };
}

/** Replaces characters that this API refuses; ids in the conversation may come from other providers. */
function toId(id: string): string {
  return id.replace(/[^A-Za-z0-9_-]/g, '_');
}

function toTool({ name, description, parameters }: NonNullable<GenerateRequest['tools']>[number]): object {
  return {
    name,
    ...given({ description }),
    input_schema: { type: 'object', ...parameters },
  };
}

function toolChoice({ tools = [], tool_choice: choice, parallel_tool_calls: parallel }: GenerateRequest): object {
  if (!hasTools(tools, choice)) return {};
  const single = parallel === false ? { disable_parallel_tool_use: true } : {};
  switch (choice) {
    case undefined:
    case 'auto':
      return parallel === false ? { tool_choice: { type: 'auto', ...single } } : {};
    case 'none':
      return { tool_choice: { type: 'none' } };
    case 'required':
      return { tool_choice: { type: 'any', ...single } };
    default:
      return { tool_choice: { type: 'tool', name: choice.name, ...single } };
  }
}

/** For models without sampling settings even default values are omitted. */
function samplingOf(sampling: Sampling, isSettable: boolean): object {
  const known = knownSampling(sampling, ['temperature', 'top_p', 'top_k']);
  if (isSettable) return known;
  for (const [name, value] of Object.entries(known)) {
    if (value !== DEFAULTS[name]) throw invalid(name, 'cannot be set for this model');
  }
  return {};
}

/** The API enforces schemas, but has no equivalent for json_object or grammars. */
function outputFormat({ format }: GenerateRequest): object | undefined {
  if (format === undefined) return undefined;
  if (format.type !== 'json_schema') throw invalid('format', 'must be json_schema for this provider');
  return { type: 'json_schema', schema: format.schema };
}

function thinkingOf(
  {
    reasoning_effort: wished,
    reasoning_budget_tokens: wishedBudget,
    reasoning_optional: isOptional,
    messages,
  }: GenerateRequest,
  maxTokens: number,
  thinksByItself: boolean,
  quirks: Quirks,
): { thinking?: object; effort?: string } {
  if (wished === undefined) return {};
  if (wished === 'none') return { thinking: { type: 'disabled' } };
  // Without `display` newer models do not return their thinking.
  if (thinksByItself) return { thinking: { type: 'adaptive', display: 'summarized' }, effort: EFFORTS[wished] };
  // Budgeted thinking starts with a turn: in the middle of a turn the API requires the thinking from its start.
  if (messages.at(-1)?.role === 'tool' && quirks.replay_reasoning !== true) return {};
  const most = Math.max(LEAST_BUDGET, Math.floor(maxTokens / 2));
  const budget = wishedBudget === undefined ? Math.min(BUDGETS[wished], most) : Math.max(LEAST_BUDGET, wishedBudget);
  if (budget >= maxTokens) {
    if (isOptional === true) return {};
    throw invalid('max_tokens', `must be greater than ${String(budget)}, the tokens for reasoning`);
  }
  return { thinking: { type: 'enabled', budget_tokens: budget } };
}
