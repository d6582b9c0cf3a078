/** The conversation of a request: the items of the stored response that it continues, then its own. */
import { toConversation, type Conversation } from '../../../../protocol/openai/responses/input.ts';
import {
  checkCount,
  responseOfItem,
  type ContentItem,
  type ItemReference,
  type Placed,
} from '../../../../protocol/openai/responses/items.ts';
import type { ResponsesCall } from '../../../../protocol/openai/responses/request.ts';
import type { StoredResponse } from '../../../../protocol/openai/responses/response.ts';
import { invalid } from '../../../../protocol/validate.ts';
import { countBytes } from '../../body.ts';
import type { Exchange } from '../../exchange.ts';

export interface FullConversation extends Conversation {
  /** All items in their order, without references. */
  readonly items: readonly Placed<ContentItem>[];
}

/**
 * `owner`: as in the store. Throws INVALID_REQUEST with `param` for a response or an item that is not stored, or not
 * for this client; BUSY if it is too large for now.
 */
export async function conversationOf(
  exchange: Exchange,
  { input, instructions, previousId }: Pick<ResponsesCall, 'input' | 'instructions' | 'previousId'>,
  owner: string,
): Promise<FullConversation> {
  const stored = new StoredItems(exchange, owner);
  const earlier = previousId === null ? [] : await stored.ofResponse(previousId);
  const own: Placed<ContentItem>[] = [];
  for (const { item, place } of input) {
    own.push({ item: item.type === 'item_reference' ? await stored.itemOf(item, place) : item, place });
  }
  const all = [...earlier, ...own];
  checkCount(all, previousId === null ? 'input' : 'previous_response_id');
  if (all.length === 0) throw invalid('input', 'is required');
  const { messages, places } = toConversation(instructions, all);
  if (messages.length === 0) throw invalid('input', 'must have a message, a call or a result');
  return { messages, places, items: all };
}

/**
 * Reads each response once, and counts its bytes as if they had come in the body; so it does those of an item with each
 * further reference to it.
 */
class StoredItems {
  readonly #exchange: Exchange;
  readonly #owner: string;
  readonly #read = new Map<string, StoredResponse | null>();
  /** The items of each response that a reference has named, by id. */
  readonly #items = new Map<string, ReadonlyMap<unknown, ContentItem>>();
  /** Bytes of each item that a reference has named. */
  readonly #bytes = new Map<ContentItem, number>();

  constructor(exchange: Exchange, owner: string) {
    this.#exchange = exchange;
    this.#owner = owner;
  }

  async ofResponse(id: string): Promise<Placed<ContentItem>[]> {
    const place = 'previous_response_id';
    const found = await this.#find(id);
    if (found === null) throw invalid(place, 'names no stored response of this client');
    return itemsIn(found).map((item) => ({ item, place }));
  }

  async itemOf({ id }: ItemReference, place: string): Promise<ContentItem> {
    const response = responseOfItem(id);
    const item = response === null ? undefined : (await this.#itemsOf(response)).get(id);
    if (item === undefined) throw invalid(`${place}.id`, 'names no stored item of this client');
    const bytes = this.#bytes.get(item);
    if (bytes !== undefined) countBytes(this.#exchange, bytes);
    else this.#bytes.set(item, Buffer.byteLength(JSON.stringify(item)));
    return item;
  }

  async #itemsOf(response: string): Promise<ReadonlyMap<unknown, ContentItem>> {
    const known = this.#items.get(response);
    if (known !== undefined) return known;
    const found = await this.#find(response);
    // Of two items with the same id the first counts.
    const items = new Map((found === null ? [] : itemsIn(found)).reverse().map((item) => [item.id, item]));
    this.#items.set(response, items);
    return items;
  }

  async #find(id: string): Promise<StoredResponse | null> {
    const known = this.#read.get(id);
    if (known !== undefined) return known;
    await countStored(this.#exchange, id);
    const stored = await this.#exchange.services.responses.find(id, this.#owner);
    const found = stored?.has_items === false ? null : stored;
    this.#read.set(id, found);
    return found;
  }
}

/** Counts the bytes of a stored response, before it is read, as if they had come in the body. Throws BUSY. */
export async function countStored(exchange: Exchange, id: string): Promise<void> {
  const { responses } = exchange.services;
  // The index must have been read for the size to be known.
  await responses.open();
  countBytes(exchange, responses.bytesOf(id));
}

/** Input and output: the items of the output have the shape of an input's. */
function itemsIn({ input, response }: StoredResponse): ContentItem[] {
  return [...input, ...(response.output as readonly unknown[] as ContentItem[])];
}
