/**
 * Items of the Responses API: what a conversation consists of. The input has them as clients send them, the output as
 * we make them. The id of an item has the id of its response in it, so that a reference to it leads to its response.
 */
import * as v from 'valibot';
import { ToolCallSchema } from '../../generate.ts';
import { LIMITS } from '../../limits.ts';
import { invalid, parse } from '../../validate.ts';
import { asFunction, isIgnored } from './foreign-items.ts';

const { id: callId, name } = ToolCallSchema.entries;
const id = v.nullish(v.pipe(v.string(), v.maxLength(LIMITS.itemIdLength)));
const content = v.union([v.string(), v.pipe(v.array(v.looseObject({})), v.maxLength(LIMITS.contentParts))]);

const texts = v.pipe(v.array(v.looseObject({ text: v.string() })), v.maxLength(LIMITS.contentParts));

/** An item of the input. Its parts are checked when they are converted (input.ts). */
export const InputItemSchema = v.variant('type', [
  v.looseObject({
    type: v.literal('message'),
    id,
    role: v.picklist(['user', 'assistant', 'system', 'developer']),
    content,
  }),
  v.looseObject({
    type: v.literal('function_call'),
    id,
    call_id: callId,
    name,
    /** Group of tools that the function belongs to (tools.ts). */
    namespace: v.nullish(name),
    arguments: v.string(),
  }),
  v.looseObject({ type: v.literal('function_call_output'), id, call_id: callId, output: content }),
  v.looseObject({
    type: v.literal('reasoning'),
    id,
    summary: v.nullish(texts),
    /** Output items lack it if they have a summary. */
    content: v.nullish(texts),
    encrypted_content: v.nullish(v.string()),
  }),
  v.looseObject({ type: v.literal('item_reference'), id: v.pipe(v.string(), v.maxLength(LIMITS.itemIdLength)) }),
]);
export type InputItem = v.InferOutput<typeof InputItemSchema>;
export type ItemReference = Extract<InputItem, { type: 'item_reference' }>;
/** An item with its content. */
export type ContentItem = Exclude<InputItem, ItemReference>;

/** An item and its place in the request, for errors. */
export interface Placed<Item extends InputItem = InputItem> {
  readonly item: Item;
  /** `input[3]`, or the name of the field that the item comes from. */
  readonly place: string;
}

export type ItemStatus = 'in_progress' | 'completed' | 'incomplete';

export interface TokenLogprobRecord {
  readonly token: string;
  readonly bytes: readonly number[];
  readonly logprob: number;
  readonly top_logprobs: readonly Omit<TokenLogprobRecord, 'top_logprobs'>[];
}

export interface OutputText {
  readonly type: 'output_text';
  text: string;
  readonly annotations: readonly object[];
  readonly logprobs: TokenLogprobRecord[];
}

export interface MessageItem {
  readonly id: string;
  readonly type: 'message';
  status: ItemStatus;
  readonly role: 'assistant';
  readonly content: OutputText[];
}

export interface ReasoningItem {
  readonly id: string;
  readonly type: 'reasoning';
  status: ItemStatus;
  readonly summary: { readonly type: 'summary_text'; text: string }[];
  /** Absent if the client requested a summary. */
  readonly content?: { readonly type: 'reasoning_text'; text: string }[];
  /** Absent if the client did not ask for it, and until the item is done. */
  encrypted_content?: string;
}

export interface FunctionCallItem {
  readonly id: string;
  readonly type: 'function_call';
  status: ItemStatus;
  readonly call_id: string;
  readonly name: string;
  readonly namespace?: string;
  arguments: string;
}

/** An item of the answer; an open one changes until it is done. */
export type OutputItem = MessageItem | ReasoningItem | FunctionCallItem;

/** Items of a request's `input` but ignored ones. A text is a user's message. Throws INVALID_REQUEST with `param`. */
export function itemsOf(input: string | readonly object[]): Placed[] {
  if (typeof input === 'string') {
    return [{ item: { type: 'message', role: 'user', content: input }, place: 'input' }];
  }
  return input.flatMap((each, index) => {
    const place = `input[${String(index)}]`;
    return isIgnored(each) ? [] : [{ item: parse(InputItemSchema, asFunction(typed(each)), place), place }];
  });
}

/** Clients may leave out the type of a message, and of a reference, which has an id and nothing else. */
function typed(item: object): object {
  const { type, role, id: reference } = item as { type?: unknown; role?: unknown; id?: unknown };
  if (type !== undefined && type !== null) return item;
  if (role !== undefined) return { ...item, type: 'message' };
  return reference === undefined ? item : { ...item, type: 'item_reference' };
}

const PREFIXES = { message: 'msg', reasoning: 'rs', function_call: 'fc', function_call_output: 'fco' } as const;
const RESPONSE_ID = /^resp_[0-9a-f]{32}$/;
const ITEM_ID = /^[a-z]+_([0-9a-f]{32})_(?:in)?\d+$/;

/** Id of the response to a request. */
export function responseIdOf(requestId: string): string {
  return `resp_${requestId}`;
}

/** Id of the request that a response belongs to. */
export function requestOf(responseId: string): string {
  return responseId.slice('resp_'.length);
}

/** True for an id that svc has made; only such ids are looked up. */
export function isResponseId(text: string): boolean {
  return RESPONSE_ID.test(text);
}

/** Id of an item of the output, by its index; `in` marks items of the input. */
export function itemIdOf(responseId: string, type: keyof typeof PREFIXES, index: number, mark: '' | 'in' = ''): string {
  return `${PREFIXES[type]}_${requestOf(responseId)}_${mark}${String(index)}`;
}

/** Id of the response that an item belongs to; null: the id is not one of ours. */
export function responseOfItem(itemId: string): string | null {
  const [, request] = ITEM_ID.exec(itemId) ?? [];
  return request === undefined ? null : responseIdOf(request);
}

/** The items as they are stored and listed: with ids, and content as parts. */
export function storedItems(responseId: string, items: readonly ContentItem[]): ContentItem[] {
  return items.map((item, index): ContentItem => {
    const facts = { id: item.id ?? itemIdOf(responseId, item.type, index, 'in'), status: 'completed' };
    if (item.type !== 'message' || typeof item.content !== 'string') return { ...item, ...facts };
    return { ...item, ...facts, content: [textPart(item.role, item.content)] };
  });
}

function textPart(role: string, text: string): Record<string, unknown> {
  return role === 'assistant' ? { type: 'output_text', text, annotations: [] } : { type: 'input_text', text };
}

/** Throws INVALID_REQUEST if the items of a conversation are too many. */
export function checkCount(items: readonly unknown[], place: string): void {
  if (items.length > LIMITS.messages) {
    throw invalid(place, `leads to more than ${String(LIMITS.messages)} items`);
  }
}
