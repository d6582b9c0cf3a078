/** Models and pages of them in Anthropic's format. */
import * as v from 'valibot';
import { LIMITS } from '../limits.ts';
import type { ListedModel } from '../model/listed.ts';
import type { Capability } from '../records.ts';
import { invalid, parse } from '../validate.ts';

const MOST = 1000;

const modelId = v.optional(v.pipe(v.string(), v.maxLength(LIMITS.modelNameLength)));

/** Query of a page, whose values are texts. */
const PageSchema = v.object({
  limit: v.optional(
    v.pipe(v.string(), v.regex(/^\d{1,4}$/), v.transform(Number), v.minValue(1), v.maxValue(MOST)),
    '20',
  ),
  after_id: modelId,
  before_id: modelId,
});

/** `created_at` is when svc got the file. The rest is as Anthropic's clients expect it; null: not known. */
export function toModelInfo(model: ListedModel): object {
  const { id, created_at, context_length, capabilities, capabilities_tried } = model;
  return {
    type: 'model',
    id,
    display_name: id,
    created_at,
    max_input_tokens: context_length,
    max_tokens: null,
    capabilities: capabilities_tried ? toCapabilities(new Set(capabilities)) : null,
    line: null,
    lifecycle: 'active',
    deprecated_at: null,
    retires_at: null,
  };
}

const YES = { supported: true };
const NO = { supported: false };

/** All keys, as Anthropic's API has them. */
function toCapabilities(found: ReadonlySet<Capability>): object {
  const support = (capability: Capability): { readonly supported: boolean } => (found.has(capability) ? YES : NO);
  const thinks = support('thinking');
  return {
    batch: NO,
    citations: NO,
    code_execution: NO,
    context_management: null,
    effort: { ...thinks, low: thinks, medium: thinks, high: thinks, xhigh: thinks, max: thinks },
    image_input: support('vision'),
    pdf_input: NO,
    server_tools: { ...NO, code_execution: NO, web_search: NO },
    structured_outputs: support('chat'),
    // A model that does not think takes the other wishes too, and answers without.
    thinking: { ...thinks, types: { adaptive: thinks, between_tools: YES, disabled: YES, enabled: thinks } },
  };
}

/** The page that `query` asks for. Throws INVALID_REQUEST with `param`. */
export function toModelPage(models: readonly ListedModel[], query: URLSearchParams): object {
  const { limit, after_id, before_id } = parse(PageSchema, Object.fromEntries(query));
  if (after_id !== undefined && before_id !== undefined) throw invalid('before_id', 'cannot be combined with after_id');
  const from = after_id === undefined ? 0 : placeOf(models, after_id, 'after_id') + 1;
  const to = before_id === undefined ? models.length : placeOf(models, before_id, 'before_id');
  const page = before_id === undefined ? models.slice(from, from + limit) : models.slice(Math.max(0, to - limit), to);
  return {
    data: page.map(toModelInfo),
    has_more: page.length < to - from,
    first_id: page[0]?.id ?? null,
    last_id: page.at(-1)?.id ?? null,
  };
}

function placeOf(models: readonly ListedModel[], id: string, param: string): number {
  const index = models.findIndex((model) => model.id === id);
  if (index === -1) throw invalid(param, 'must be the id of a model in the list');
  return index;
}
