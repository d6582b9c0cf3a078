/** Whether a request over TCP may do what its route does. */
import type { IncomingHttpHeaders } from 'node:http';
import { SvcError } from '../../protocol/errors.ts';
import type { KeyScope } from '../../protocol/keys.ts';
import type { Access } from '../services.ts';

/**
 * What a route asks for. `none`: nothing, and nothing is looked at. `probe`: answered whoever asks,
 * but strangers see less.
 */
export type RouteScope = 'none' | 'probe' | KeyScope;

/** A request, as far as it matters here. */
export interface Caller {
  readonly headers: IncomingHttpHeaders;
  readonly socket: { readonly localAddress?: string | undefined };
}

/** Whether the caller is more than a stranger. Throws UNAUTHORIZED or FORBIDDEN. */
export async function authorize(req: Caller, needed: RouteScope, access: Access): Promise<boolean> {
  if (needed === 'none') return false;
  const keys = keysOf(req);
  const scope = await access.admit(req.socket.localAddress, keys);
  if (needed === 'probe') return scope !== null;
  if (scope === null) {
    throw new SvcError('UNAUTHORIZED', keys.length === 0 ? 'an API key is needed' : 'the API key is not a known one', {
      hint: 'send `Authorization: Bearer KEY` or `x-api-key: KEY`; on the machine itself `svc key add NAME` makes one',
    });
  }
  if (needed === 'admin' && scope !== 'admin') {
    throw new SvcError('FORBIDDEN', 'this API key is for inference only', {
      hint: 'use one of scope admin: svc key add NAME --scope admin',
    });
  }
  return true;
}

/** OpenAI's clients send the first, Anthropic's either. */
function keysOf({ headers }: Caller): string[] {
  const bearer = /^Bearer +(\S+)$/i.exec(headers.authorization ?? '')?.[1];
  const other = headers['x-api-key'];
  return [bearer, other].filter((key): key is string => typeof key === 'string' && key !== '');
}
