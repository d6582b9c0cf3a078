/**
 * Converts the messages of Anthropic's API to ours.
 *
 * Consecutive messages of a role are one turn, as in its documentation. A user's turn has the results of tools first,
 * each a message of its own, and then the rest. A system message after the beginning becomes a text of the user's turn,
 * marked as one: many templates refuse it elsewhere, and moving it up would break the prefix cache. The places of all
 * parts in the caller's request are kept, so that errors of a backend name the caller's fields.
 */
import { fromCarried } from '../history/carried-reasoning.ts';
import type { ContentPart, Message, ToolCall } from '../generate.ts';
import { invalid, parse } from '../validate.ts';
import {
  AssistantBlocksSchema,
  ResultBlocksSchema,
  SystemBlocksSchema,
  UserBlocksSchema,
  type AssistantBlock,
  type PlainBlock,
  type ThinkingBlock,
  type ToolResultBlock,
  type UserBlock,
  type WebSearchBlock,
} from './blocks.ts';

/** A message with its content unchecked. */
export interface WireMessage {
  readonly role: 'system' | 'user' | 'assistant';
  readonly content: unknown;
  /** `next_user_message`: the message is left out once there is a later one of the user. */
  readonly clear_at?: string | null | undefined;
}

/** Paths in the caller's request. */
export interface Place {
  readonly message: string;
  /** Path of each part of the content, if the content is a list. */
  readonly parts: readonly string[];
  readonly calls: readonly string[];
}

/** One of our messages and where it comes from. */
export interface PlacedMessage {
  readonly message: Message;
  readonly place: Place;
  /** Names of the tools that a result refers to: deferred ones, which the model may call from now on. */
  readonly loads?: readonly string[];
}

interface Placed<Block> {
  readonly block: Block;
  readonly param: string;
}
interface Turn {
  readonly role: WireMessage['role'];
  /** Path of its first message. */
  readonly param: string;
  readonly blocks: Placed<UserBlock | AssistantBlock>[];
}

/** `hasSystem`: the request has a system prompt, which comes before these. Throws INVALID_REQUEST with `param`. */
export function toMessages(wire: readonly WireMessage[], hasSystem: boolean): PlacedMessage[] {
  return turnsOf(wire, hasSystem).flatMap((turn) => (turn.role === 'user' ? userMessages(turn) : [otherMessage(turn)]));
}

function turnsOf(wire: readonly WireMessage[], hasSystem: boolean): Turn[] {
  const turns: Turn[] = [];
  const lastUser = wire.findLastIndex(({ role }) => role === 'user');
  for (const [index, { role: own, content, clear_at }] of wire.entries()) {
    if (own === 'system' && clear_at === 'next_user_message' && index < lastUser) continue;
    const param = `messages[${String(index)}]`;
    const isLate = own === 'system' && (hasSystem || index > 0);
    const role = isLate ? 'user' : own;
    const read = blocksOf(own, content, `${param}.content`);
    const blocks = isLate ? read.map(asReminder) : read;
    const last = turns.at(-1);
    if (last?.role === role) last.blocks.push(...blocks);
    else turns.push({ role, param, blocks });
  }
  return turns;
}

/** In the form that coding agents use for it in messages of the user. */
function asReminder({ block, param }: Placed<UserBlock | AssistantBlock>): Placed<UserBlock | AssistantBlock> {
  if (block.type !== 'text') return { block, param };
  return { block: { type: 'text', text: `<system-reminder>\n${block.text}\n</system-reminder>` }, param };
}

const SCHEMAS = { system: SystemBlocksSchema, user: UserBlocksSchema, assistant: AssistantBlocksSchema } as const;

function blocksOf(role: WireMessage['role'], content: unknown, param: string): Placed<UserBlock | AssistantBlock>[] {
  if (typeof content === 'string') return [{ block: { type: 'text', text: content }, param }];
  const blocks: readonly (UserBlock | AssistantBlock)[] = parse(SCHEMAS[role], content, param);
  return placed(blocks, param);
}

function placed<Block>(blocks: readonly Block[], param: string): Placed<Block>[] {
  return blocks.map((block, index) => ({ block, param: `${param}[${String(index)}]` }));
}

function userMessages({ param, blocks }: Turn): PlacedMessage[] {
  const results: PlacedMessage[] = [];
  const rest: Placed<PlainBlock>[] = [];
  for (const { block, param: at } of blocks as readonly Placed<UserBlock>[]) {
    if (block.type === 'tool_result') results.push(resultMessage(block, at));
    else rest.push({ block, param: at });
  }
  // Next to tool results, a document is most likely a file that a tool read; clients resend it with every request, so
  // it is not refused.
  if (results.length === 0) rest.forEach(refuseUnread);
  if (rest.length === 0 && results.length > 0) return results;
  return [...results, { message: { role: 'user', ...contentOf(rest) }, place: placeOf(param, rest) }];
}

function refuseUnread({ block, param }: Placed<PlainBlock>): void {
  if (block.type !== 'document' || 'data' in block.source || 'content' in block.source) return;
  throw invalid(`${param}.source.type`, 'must be text or content: svc cannot read PDFs and files; send the text');
}

/** The text says that the tool failed: our messages have no field for it. */
function resultMessage({ tool_use_id, content, is_error }: ToolResultBlock, param: string): PlacedMessage {
  const plain: Placed<PlainBlock>[] =
    content === undefined || content === null
      ? []
      : typeof content === 'string'
        ? [{ block: { type: 'text', text: content }, param }]
        : placed(parse(ResultBlocksSchema, content, `${param}.content`), `${param}.content`);
  const failed: Placed<PlainBlock>[] = is_error === true ? [{ block: { type: 'text', text: FAILED }, param }] : [];
  const all = [...failed, ...plain];
  return {
    message: { role: 'tool', ...contentOf(all), tool_call_id: tool_use_id },
    place: placeOf(param, all),
    loads: plain.flatMap(({ block }) => (block.type === 'tool_reference' ? [block.tool_name] : [])),
  };
}

const FAILED = 'The tool failed:';
const UNREAD = '[a PDF or file that svc cannot read; a tool may extract its text]';

function otherMessage({ role, param, blocks }: Turn): PlacedMessage {
  const texts: Placed<PlainBlock>[] = [];
  const thoughts: string[] = [];
  const calls: Placed<ToolCall>[] = [];
  for (const { block, param: at } of blocks as readonly Placed<AssistantBlock>[]) {
    if (block.type === 'text') texts.push({ block, param: at });
    else if (block.type === 'web_search_tool_result')
      texts.push(...foundBy(block).map((found) => ({ block: found, param: at })));
    else if (block.type === 'thinking') thoughts.push(thoughtsIn(block));
    else if (block.type === 'tool_use') {
      const { id, name, input } = block;
      calls.push({ block: { id, name, arguments: JSON.stringify(input) }, param: at });
    }
  }
  const reasoning = thoughts.filter((thought) => thought !== '').join('\n');
  return {
    message: {
      role,
      ...contentOf(texts),
      ...(reasoning === '' ? {} : { reasoning }),
      ...(calls.length === 0 ? {} : { tool_calls: calls.map(({ block }) => block) }),
    },
    place: { ...placeOf(param, texts), calls: calls.map(({ param: at }) => at) },
  };
}

/** The text, or what the signature carries of an answer without it. */
function thoughtsIn({ thinking, signature }: ThinkingBlock): string {
  return thinking === '' ? fromCarried(signature ?? '') : thinking;
}

/** The pages that a search has found, if any, as a text. */
function foundBy({ content }: WebSearchBlock): PlainBlock[] {
  if (!Array.isArray(content) || content.length === 0) return [];
  const pages = content.map(({ title, url }) => `${title}: ${url}`);
  return [{ type: 'text', text: joined(['[search results]', ...pages]) }];
}

function placeOf(message: string, blocks: readonly Placed<PlainBlock>[]): Place {
  return { message, parts: blocks.map(({ param }) => param), calls: [] };
}

/** Joins texts with line breaks, like OpenAI's requests here: both have the same prompt. */
function contentOf(blocks: readonly Placed<PlainBlock>[]): Pick<Message, 'content'> {
  const parts = blocks.map(({ block }) => toPart(block));
  if (!parts.every((part) => part.type === 'text')) return { content: parts };
  return { content: joined(parts.map(({ text }) => text)) };
}

/** Joins texts with line breaks; none before the first that is not empty. */
export function joined(texts: readonly string[]): string {
  return texts.reduce((whole, text) => (whole === '' ? text : `${whole}\n${text}`), '');
}

/** True unless a text is absent or empty. */
function isGiven(text: string | null | undefined): text is string {
  return text !== null && text !== undefined && text !== '';
}

function toPart(block: PlainBlock): ContentPart {
  switch (block.type) {
    case 'text':
      return { type: 'text', text: block.text };
    case 'image': {
      const { source } = block;
      if (source.type === 'url') return { type: 'image_url', url: source.url };
      return { type: 'image', media_type: source.media_type, data: source.data };
    }
    case 'document': {
      const { title, context, source } = block;
      const content = 'data' in source ? source.data : 'content' in source ? source.content : UNREAD;
      const texts = typeof content === 'string' ? [content] : content.map(({ text }) => text);
      return { type: 'text', text: joined([title, context, ...texts].filter(isGiven)) };
    }
    case 'tool_reference':
      return { type: 'text', text: `The tool ${block.tool_name} is loaded and can be called.` };
    case 'search_result':
      return { type: 'text', text: joined([block.title, block.source, ...block.content.map(({ text }) => text)]) };
  }
}
