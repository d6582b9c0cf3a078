/** Addresses of daemons on TCP. */
import { orElse } from '../protocol/foreign-text.ts';
import { SvcError } from '../protocol/errors.ts';
import { given } from '../protocol/given.ts';
import type { HttpTarget } from './request.ts';

/** Throws INVALID_REQUEST. Errors do not contain the key. */
export function targetOf({ baseUrl, apiKey }: { baseUrl: string | URL; apiKey?: string | undefined }): HttpTarget {
  const url = orElse(() => new URL(baseUrl), undefined);
  if (url === undefined || !['http:', 'https:'].includes(url.protocol)) {
    throw refused('baseUrl', 'must be an http or https URL', 'for example http://127.0.0.1:7117');
  }
  if (url.username !== '' || url.password !== '') {
    throw refused('baseUrl', 'must not contain credentials', 'give the API key as apiKey');
  }
  if (url.search !== '' || url.hash !== '') throw refused('baseUrl', 'must end with its path', 'leave out `?` and `#`');
  if (/\/v1\/?$/.test(url.pathname)) {
    throw refused('baseUrl', "must not end with /v1, which OpenAI's clients add", 'for example http://127.0.0.1:7117');
  }
  if (apiKey !== undefined && !/^[\x21-\x7e]+$/.test(apiKey)) {
    throw refused('apiKey', 'must be printable ASCII without spaces', 'the daemon makes keys: svc key add NAME');
  }
  return { baseUrl: url, ...given({ apiKey }) };
}

function refused(param: string, what: string, hint: string): SvcError {
  return new SvcError('INVALID_REQUEST', `${param} ${what}`, { param, hint });
}
