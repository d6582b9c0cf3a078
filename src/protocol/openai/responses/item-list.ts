/** `GET /v1/responses/ID/input_items`: pages of a list of items. */
import * as v from 'valibot';
import { LIMITS } from '../../limits.ts';
import { parse } from '../../validate.ts';
import type { ContentItem } from './items.ts';

/** Fields of the query, as text. */
const ItemsQuerySchema = v.object({
  limit: v.exactOptional(
    v.pipe(v.string(), v.regex(/^\d{1,4}$/), v.transform(Number), v.minValue(1), v.maxValue(100)),
    '20',
  ),
  order: v.exactOptional(v.picklist(['asc', 'desc']), 'desc'),
  /** Id of the item that the page begins after. */
  after: v.exactOptional(v.pipe(v.string(), v.maxLength(LIMITS.itemIdLength))),
});
export type ItemsQuery = v.InferOutput<typeof ItemsQuerySchema>;

/** Throws INVALID_REQUEST with `param`. */
export function parseItemsQuery(query: URLSearchParams): ItemsQuery {
  return parse(ItemsQuerySchema, Object.fromEntries(query));
}

/** An unknown `after` gives an empty page. */
export function toItemList(items: readonly ContentItem[], { limit, order, after }: ItemsQuery): object {
  const sorted = order === 'asc' ? items : items.toReversed();
  const from = after === undefined ? 0 : sorted.findIndex(({ id }) => id === after) + 1 || sorted.length;
  const data = sorted.slice(from, from + limit);
  return {
    object: 'list',
    data,
    first_id: data[0]?.id ?? null,
    last_id: data.at(-1)?.id ?? null,
    has_more: from + limit < sorted.length,
  };
}
