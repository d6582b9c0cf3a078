/**
 * The providers that svc knows by name: a dated data file (providers/catalogue.json), so that keeping
 * it up to date needs no code. What a person configures wins over every entry of it.
 */
import { readFileSync } from 'node:fs';
import * as v from 'valibot';

export const KINDS = ['openai', 'anthropic', 'gemini', 'openai_compatible'] as const;
export const APIS = ['chat_completions', 'responses', 'messages', 'gemini'] as const;

/** What stands before the slash in `provider/model`, and between dots in the name of a setting. */
export const PROVIDER_NAME = /^(?!local$)[a-z0-9][a-z0-9-]{0,63}$/;
/** Capitals only: a key that was put in the place of a variable's name is refused. */
export const VARIABLE_NAME = /^[A-Z_][A-Z0-9_]{0,127}$/;

const url = v.pipe(v.string(), v.url());
const date = v.pipe(v.string(), v.isoDate());

const QuirksSchema = v.strictObject({
  key_header: v.exactOptional(v.picklist(['authorization', 'x-api-key', 'api-key', 'x-goog-api-key'])),
  max_tokens_field: v.exactOptional(v.literal('max_completion_tokens')),
  unsupported: v.exactOptional(v.array(v.string())),
  stream_usage: v.exactOptional(v.boolean()),
  replay_reasoning: v.exactOptional(v.boolean()),
  models_path: v.exactOptional(v.nullable(v.string())),
  headers: v.exactOptional(v.record(v.string(), v.string())),
});

const EntrySchema = v.strictObject({
  name: v.pipe(v.string(), v.regex(PROVIDER_NAME)),
  title: v.string(),
  kind: v.picklist(KINDS),
  /** Absent: the API of its kind. */
  api: v.exactOptional(v.picklist(APIS)),
  /** null: each account has its own, of `base_url_form`. */
  base_url: v.nullable(url),
  base_url_form: v.exactOptional(url),
  /** Environment variables that may hold the key, the usual one first. Empty: it needs no key. */
  key_variables: v.array(v.pipe(v.string(), v.regex(VARIABLE_NAME))),
  /** The variables hold a key that is good for more than prompts: one in the environment alone configures nothing. */
  general_key: v.exactOptional(v.boolean(), false),
  /** null: the account or the server decides. */
  default_model: v.nullable(v.string()),
  quirks: v.exactOptional(QuirksSchema, {}),
  /** A server that people run themselves; `base_url` is where it listens unless told otherwise. */
  self_hosted: v.exactOptional(v.boolean(), false),
  /** Other usual addresses of such a server. */
  also_at: v.exactOptional(v.array(url), []),
  /** When all this was true. */
  as_of: date,
});

export const CatalogueSchema = v.strictObject({ as_of: date, providers: v.array(EntrySchema) });
export type CatalogueEntry = v.InferOutput<typeof EntrySchema>;

/** `src/config` and `dist/config` are equally deep. */
const FILE = new URL('../../providers/catalogue.json', import.meta.url);

let entries: ReadonlyMap<string, CatalogueEntry> | undefined;

/** By name, in the order of the file, which is read when it is first asked for. */
export function catalogue(): ReadonlyMap<string, CatalogueEntry> {
  entries ??= new Map(
    v.parse(CatalogueSchema, JSON.parse(readFileSync(FILE, 'utf8'))).providers.map((entry) => [entry.name, entry]),
  );
  return entries;
}
