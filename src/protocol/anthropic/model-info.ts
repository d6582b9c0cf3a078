/** Models and pages of them in Anthropic's format. */
import * as v from 'valibot';
import type { ModelRecord } from '../records.ts';
import { invalid, parse } from '../validate.ts';

const MOST = 1000;

/** Query of a page, whose values are texts. */
const PageSchema = v.object({
  limit: v.optional(
    v.pipe(v.string(), v.regex(/^\d{1,4}$/), v.transform(Number), v.minValue(1), v.maxValue(MOST)),
    '20',
  ),
  after_id: v.optional(v.string()),
  before_id: v.optional(v.string()),
});

/** `created_at` is when svc got the file. The rest is as Anthropic's clients expect it; null: not known. */
export function toModelInfo({ id, modified_at, loaded, context_length }: ModelRecord): object {
  return {
    type: 'model',
    id,
    display_name: id,
    created_at: modified_at,
    max_input_tokens: loaded?.context_length ?? context_length,
    max_tokens: null,
    capabilities: null,
    line: null,
    lifecycle: 'active',
    deprecated_at: null,
    retires_at: null,
  };
}

/** The page that `query` asks for. Throws INVALID_REQUEST with `param`. */
export function toModelPage(records: readonly ModelRecord[], query: URLSearchParams): object {
  const { limit, after_id, before_id } = parse(PageSchema, Object.fromEntries(query));
  if (after_id !== undefined && before_id !== undefined) throw invalid('before_id', 'cannot be combined with after_id');
  const from = after_id === undefined ? 0 : placeOf(records, after_id, 'after_id') + 1;
  const to = before_id === undefined ? records.length : placeOf(records, before_id, 'before_id');
  const page = before_id === undefined ? records.slice(from, from + limit) : records.slice(Math.max(0, to - limit), to);
  return {
    data: page.map(toModelInfo),
    has_more: page.length < to - from,
    first_id: page[0]?.id ?? null,
    last_id: page.at(-1)?.id ?? null,
  };
}

function placeOf(records: readonly ModelRecord[], id: string, param: string): number {
  const index = records.findIndex((record) => record.id === id);
  if (index === -1) throw invalid(param, 'must be the id of a model in the list');
  return index;
}
