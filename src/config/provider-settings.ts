/** The section `providers`: what a person says of each, over the catalogue. Never a key: see credentials-file.ts. */
import { BlockList, isIP } from 'node:net';
import * as v from 'valibot';
import { APIS, catalogue, KINDS, PROVIDER_NAME, VARIABLE_NAME } from './catalogue.ts';
import { flag, named, section, text, wholeNumber } from './schema.ts';

const MOST_ENDPOINTS = 64;
/** Header names that carry a key: they are ours to set. */
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
    v.regex(/^[a-z0-9-]+$/i, 'is not the name of a header'),
    v.check((name) => !KEY_HEADERS.test(name), 'may hold a key, which stands in no config: svc sends it by itself'),
  ),
  v.pipe(text, v.regex(/^[\x20-\x7e]+$/, 'must be printable ASCII')),
);

const ProviderSettingsSchema = v.pipe(
  section({
    /** Absent: as the catalogue has it, else openai_compatible. */
    kind: v.exactOptional(v.picklist(KINDS, `must be one of ${KINDS.join(', ')}`)),
    /** Absent: that of the kind. */
    api: v.exactOptional(v.picklist(APIS, `must be one of ${APIS.join(', ')}`)),
    /** More than one make a cluster. */
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
    enabled: v.exactOptional(flag, true),
    /** Requests under way at once. */
    concurrency: v.exactOptional(wholeNumber(1, 100_000)),
    /** An answer that is silent for so long is given up. */
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
  // A further account with one of the known kinds is where the first is.
  const entry = catalogue().get(name) ?? catalogue().get(kind ?? '');
  if (entry === undefined) return 'needs a base_url: it is none of the catalogue (svc provider list --all)';
  if (entry.base_url === null) return `needs a base_url, of the form ${entry.base_url_form ?? 'https://HOST/v1'}`;
  return undefined;
}

/** What is wrong with a base URL, without repeating it. undefined: nothing. */
export function problemOfUrl(typed: string): string | undefined {
  if (!URL.canParse(typed)) return 'must be a URL, https://HOST/PATH';
  const { protocol, username, password, search, hash, hostname } = new URL(typed);
  if (protocol !== 'https:' && protocol !== 'http:') return 'must begin with https://';
  if (username !== '' || password !== '') return 'must not hold a user or a password';
  if (search !== '' || hash !== '' || /[?#]/.test(typed)) return 'must end with its path: no ? and no #';
  if (/\/$/.test(typed)) return 'must not end with a slash';
  if (protocol === 'http:' && !isNearby(hostname)) {
    return 'must begin with https://: plain http is for this machine and private networks';
  }
  return undefined;
}

/** Whether nobody but this machine hears what is sent there. */
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
/** Names without a domain, and those of domains that lead nowhere outside. */
const PRIVATE_NAME = /^[0-9-]*[a-z][a-z0-9-]*$|\.(local|internal|lan|svc|home\.arpa|test)$/i;

function isNearby(hostname: string): boolean {
  return isIn(LOOPBACK, hostname) || isIn(PRIVATE, hostname) || PRIVATE_NAME.test(hostname);
}

function isIn(list: BlockList, hostname: string): boolean {
  const bare = hostname.replace(/^\[|\]$/g, '');
  const family = isIP(bare);
  return family !== 0 && list.check(bare, family === 6 ? 'ipv6' : 'ipv4');
}

/** Of the one form that was meant: a wrong entry of a list is not "no string". */
function describeUnion(issue: v.UnionIssue<v.BaseIssue<unknown>>): string {
  const deepest = [...(issue.issues ?? [])].sort((a, b) => (b.path?.length ?? 0) - (a.path?.length ?? 0));
  const [first] = deepest.filter(({ kind }) => kind === 'validation');
  return first?.message ?? 'must be a URL or a list of URLs';
}
