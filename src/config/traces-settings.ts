/** The section `traces`: where traces are sent. What a collector needs to know a client by is in a file of its own. */
import * as v from 'valibot';
import { isLoopbackUrl } from './provider-settings.ts';
import { optionalSection, text } from './schema.ts';

const endpoint = v.pipe(
  text,
  v.rawCheck(({ dataset, addIssue }) => {
    const problem = dataset.typed ? problemOfEndpoint(dataset.value) : undefined;
    if (problem !== undefined) addIssue({ message: problem });
  }),
);

export const TracesSchema = optionalSection({
  /** Collector of OTLP over HTTP. null: no traces. */
  endpoint: v.exactOptional(v.nullable(endpoint), null),
  /** Share of the traces that are sent, if the client has not decided. */
  sample_ratio: v.exactOptional(
    v.pipe(v.number('must be a number'), v.minValue(0, 'must be at least 0'), v.maxValue(1, 'must be at most 1')),
    1,
  ),
  /** File with headers for the collector. Absent: none. */
  headers_file: v.exactOptional(text),
  service_name: v.exactOptional(text, 'svc'),
});

/** Returns the error in the URL of a collector, without repeating it. undefined: it is valid. */
export function problemOfEndpoint(typed: string): string | undefined {
  if (!URL.canParse(typed)) return 'must be a URL, http://HOST:4318';
  const { protocol, username, password, hash } = new URL(typed);
  if (protocol !== 'https:' && protocol !== 'http:') return 'must begin with http:// or https://';
  if (username !== '' || password !== '') return 'must not contain a user name or a password: use traces.headers_file';
  return hash === '' ? undefined : 'must not contain #';
}

/** The URL that traces are posted to: a bare host has them at OTLP's usual path. */
export function urlOfEndpoint(endpoint: string): URL {
  const url = new URL(endpoint);
  if (url.pathname === '/') url.pathname = '/v1/traces';
  return url;
}

/** True if secrets may be sent there: plain http carries them only within this machine. */
export function mayCarrySecrets(url: URL): boolean {
  return url.protocol === 'https:' || isLoopbackUrl(url.href);
}
