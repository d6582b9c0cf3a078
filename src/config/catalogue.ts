/**
 * The providers that svc knows by name: a dated data file (providers/catalogue.json), so that updating it needs no
 * code. The user's config overrides every entry.
 */
import * as v from 'valibot';
import { ownText } from '../process/own-files.ts';
import { PROVIDER_NAME } from '../protocol/routing.ts';

export const KINDS = ['openai', 'anthropic', 'gemini', 'openai_compatible'] as const;
export const APIS = ['chat_completions', 'responses', 'messages', 'gemini'] as const;

/** Capitals only, so that a key given instead of a variable's name is rejected. */
export const VARIABLE_NAME = /^[A-Z_][A-Z0-9_]{0,127}$/;

const url = v.pipe(v.string(), v.url());
const date = v.pipe(v.string(), v.isoDate());

const QuirksSchema = v.strictObject({
  key_header: v.exactOptional(v.picklist(['authorization', 'x-api-key', 'api-key', 'x-goog-api-key'])),
  max_tokens_field: v.exactOptional(v.literal('max_completion_tokens')),
  unsupported: v.exactOptional(v.array(v.string())),
  stream_usage: v.exactOptional(v.boolean()),
  replay_reasoning: v.exactOptional(v.boolean()),
  embedding_inputs: v.exactOptional(v.pipe(v.number(), v.integer(), v.minValue(1))),
  models_path: v.exactOptional(v.nullable(v.string())),
  headers: v.exactOptional(v.record(v.string(), v.string())),
});

const EntrySchema = v.strictObject({
  name: v.pipe(v.string(), v.regex(PROVIDER_NAME)),
  title: v.string(),
  kind: v.picklist(KINDS),
  /** Absent: the API of its kind. */
  api: v.exactOptional(v.picklist(APIS)),
  /** null: each account has its own URL, in the form `base_url_form`. */
  base_url: v.nullable(url),
  base_url_form: v.exactOptional(url),
  /** Environment variables that may hold the key, the usual one first. Empty: no key is needed. */
  key_variables: v.array(v.pipe(v.string(), v.regex(VARIABLE_NAME))),
  /** The variables' key has other uses, too: such a variable alone does not enable the provider. */
  general_key: v.exactOptional(v.boolean(), false),
  /** null: the account or the server decides. */
  default_model: v.nullable(v.string()),
  quirks: v.exactOptional(QuirksSchema, {}),
  /** A server that users run themselves; `base_url` is its default address. */
  self_hosted: v.exactOptional(v.boolean(), false),
  /** Other usual addresses of such a server. */
  also_at: v.exactOptional(v.array(url), []),
  /** Date when the entry was checked. */
  as_of: date,
});

export const CatalogueSchema = v.strictObject({ as_of: date, providers: v.array(EntrySchema) });
export type CatalogueEntry = v.InferOutput<typeof EntrySchema>;

let entries: ReadonlyMap<string, CatalogueEntry> | undefined;

/** The entries by name, in the order of the file, which is read by the first call. */
export function catalogue(): ReadonlyMap<string, CatalogueEntry> {
  entries ??= new Map(
    v
      .parse(CatalogueSchema, JSON.parse(ownText('providers/catalogue.json')))
      .providers.map((entry) => [entry.name, entry]),
  );
  return entries;
}
