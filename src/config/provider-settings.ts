/** The section `providers`: settings that override the catalogue. Keys are kept elsewhere (credentials-file.ts). */
import { BlockList, isIP } from 'node:net';
import * as v from 'valibot';
import { PROVIDER_NAME } from '../protocol/routing.ts';
import { APIS, catalogue, KINDS, VARIABLE_NAME } from './catalogue.ts';
import { flag, named, section, text, wholeNumber } from './schema.ts';

const MOST_ENDPOINTS = 64;
/** Names of headers that carry a key: svc sets these itself. */
const KEY_HEADERS = /^(?:authorization|proxy-authorization|cookie)$|api-?key|token|secret|password/i;

const baseUrl = v.pipe(
  text,
  v.rawCheck(({ dataset, addIssue }) => {
    const problem = dataset.typed ? problemOfUrl(dataset.value) : undefined;
    if (problem !== undefined) addIssue({ message: problem });
  }),
);

const headers = named(
  v.pipe(
    v.string(),
    v.regex(/^[a-z0-9-]+$/i, 'is not a valid header name'),
    v.check(
      (name) => !KEY_HEADERS.test(name),
      'may hold a key, and keys are not kept in the config: svc sends the key itself',
    ),
  ),
  v.pipe(text, v.regex(/^[\x20-\x7e]+$/, 'must be printable ASCII')),
);

const ProviderSettingsSchema = v.pipe(
  section({
    /** Absent: from the catalogue, else openai_compatible. */
    kind: v.exactOptional(v.picklist(KINDS, `must be one of ${KINDS.join(', ')}`)),
    /** Absent: the API of the kind. */
    api: v.exactOptional(v.picklist(APIS, `must be one of ${APIS.join(', ')}`)),
    /** Several URLs make a cluster. */
    base_url: v.exactOptional(
      v.union(
        [
          baseUrl,
          v.pipe(
            v.array(baseUrl),
            v.minLength(1, 'must not be empty'),
            v.maxLength(MOST_ENDPOINTS, `must have at most ${String(MOST_ENDPOINTS)} URLs`),
            v.check((urls) => new Set(urls).size === urls.length, 'has a URL twice'),
          ),
        ],
        describeUnion,
      ),
    ),
    api_key_env: v.exactOptional(
      v.pipe(text, v.regex(VARIABLE_NAME, 'must be the name of an environment variable, in capitals')),
    ),
    default_model: v.exactOptional(text),
    /** Model of embedding requests that name none. */
    embedding_model: v.exactOptional(text),
    enabled: v.exactOptional(flag, true),
    /** Maximum number of concurrent requests. */
    concurrency: v.exactOptional(wholeNumber(1, 100_000)),
    /** An answer without data for this time is aborted. */
    idle_timeout_seconds: v.exactOptional(wholeNumber(1, 86_400), 300),
    /** Sent with every request. */
    headers: v.exactOptional(headers),
    requests_per_day: v.exactOptional(wholeNumber(0, Number.MAX_SAFE_INTEGER)),
    tokens_per_day: v.exactOptional(wholeNumber(0, Number.MAX_SAFE_INTEGER)),
  }),
);
export type ProviderSettings = v.InferOutput<typeof ProviderSettingsSchema>;

export const ProvidersSchema = v.pipe(
  named(
    v.pipe(
      v.string(),
      v.regex(PROVIDER_NAME, 'cannot be the name of a provider: small letters, digits and dashes; `local` is taken'),
    ),
    ProviderSettingsSchema,
  ),
  v.rawCheck(({ dataset, addIssue }) => {
    if (!dataset.typed) return;
    for (const [name, settings] of Object.entries(dataset.value)) {
      const message = settings.base_url === undefined ? problemWithoutUrl(name, settings.kind) : undefined;
      if (message === undefined) continue;
      const path = { type: 'object', origin: 'value', input: dataset.value, key: name, value: settings } as const;
      addIssue({ message, path: [path] });
    }
  }),
);

function problemWithoutUrl(name: string, kind: ProviderSettings['kind']): string | undefined {
  // Another account with a known kind has that provider's base URL.
  const entry = catalogue().get(name) ?? catalogue().get(kind ?? '');
  if (entry === undefined) return 'needs a base_url: it is not in the catalogue (svc provider list --all)';
  if (entry.base_url === null) return `needs a base_url, of the form ${entry.base_url_form ?? 'https://HOST/v1'}`;
  return undefined;
}

/** Returns the error in a base URL, without repeating it. undefined: it is valid. */
export function problemOfUrl(typed: string): string | undefined {
  if (!URL.canParse(typed)) return 'must be a URL, https://HOST/PATH';
  const { protocol, username, password, search, hash, hostname } = new URL(typed);
  if (protocol !== 'https:' && protocol !== 'http:') return 'must begin with https://';
  if (username !== '' || password !== '') return 'must not contain a user name or a password';
  if (search !== '' || hash !== '' || /[?#]/.test(typed)) return 'must end with its path: no ? and no #';
  if (/\/$/.test(typed)) return 'must not end with a slash';
  if (protocol === 'http:' && !isNearby(hostname)) {
    return 'must begin with https://: plain http is only for this machine and private networks';
  }
  return undefined;
}

/** True if data sent there does not leave this machine. */
export function isLoopbackUrl(url: string): boolean {
  const { hostname } = new URL(url);
  return hostname === 'localhost' || isIn(LOOPBACK, hostname);
}

const LOOPBACK = new BlockList();
LOOPBACK.addSubnet('127.0.0.0', 8);
LOOPBACK.addAddress('::1', 'ipv6');
const PRIVATE = new BlockList();
PRIVATE.addSubnet('10.0.0.0', 8);
PRIVATE.addSubnet('172.16.0.0', 12);
PRIVATE.addSubnet('192.168.0.0', 16);
PRIVATE.addSubnet('fc00::', 7, 'ipv6');
/** Names without a domain, and names of private domains. */
const PRIVATE_NAME = /^[0-9-]*[a-z][a-z0-9-]*$|\.(local|internal|lan|svc|home\.arpa|test)$/i;

function isNearby(hostname: string): boolean {
  return isIn(LOOPBACK, hostname) || isIn(PRIVATE, hostname) || PRIVATE_NAME.test(hostname);
}

function isIn(list: BlockList, hostname: string): boolean {
  const bare = hostname.replace(/^\[|\]$/g, '');
  const family = isIP(bare);
  return family !== 0 && list.check(bare, family === 6 ? 'ipv6' : 'ipv4');
}

/** Returns the error of the intended form: a wrong list entry must not be reported as "must be a string". */
function describeUnion(issue: v.UnionIssue<v.BaseIssue<unknown>>): string {
  const deepest = [...(issue.issues ?? [])].sort((a, b) => (b.path?.length ?? 0) - (a.path?.length ?? 0));
  const [first] = deepest.filter(({ kind }) => kind === 'validation');
  return first?.message ?? 'must be a URL or a list of URLs';
}
