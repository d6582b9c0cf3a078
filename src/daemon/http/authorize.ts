/** Authorizes requests over TCP and identifies their callers. */
import type { IncomingHttpHeaders } from 'node:http';
import type { Caller } from '../../protocol/caller.ts';
import { SvcError } from '../../protocol/errors.ts';
import { given } from '../../protocol/given.ts';
import { networkOf } from '../../net/ip-address.ts';
import { allows, type KeyScope } from '../../protocol/keys.ts';
import type { Services } from '../services.ts';

/**
 * Scope that a route needs. `none`: no check at all. `probe`: every caller is answered, but without a key gets fewer
 * details. `admin_key`: a key of scope admin, even where other routes need no key.
 */
export type RouteScope = 'none' | 'probe' | KeyScope | 'admin_key';

/** The parts of a request that are checked. */
export interface Arrival {
  readonly headers: IncomingHttpHeaders;
  readonly socket: { readonly localAddress?: string | undefined; readonly remoteAddress?: string | undefined };
}

/**
 * Returns the caller; null: without a valid key, on a route that needs none. `page`: highest scope for the web page
 * that sent the request, even if its key has a higher one. Throws UNAUTHORIZED or FORBIDDEN.
 */
export async function authorize(
  req: Arrival,
  needed: RouteScope,
  access: Services['access'],
  page: KeyScope = 'admin',
): Promise<Caller | null> {
  if (needed === 'none') return null;
  const keys = keysOf(req);
  const admission = await access.admit(req.socket.localAddress, keys);
  if (admission === null) {
    if (needed === 'probe') return null;
    throw new SvcError(
      'UNAUTHORIZED',
      keys.length === 0 ? 'an API key is needed' : 'the API key is not a known one, or has expired',
      {
        hint: 'send `Authorization: Bearer KEY` or `x-api-key: KEY`; on the machine itself `svc key add NAME` makes one',
      },
    );
  }
  const { key: name, limits } = admission;
  const isPageLimit = !allows(page, admission.scope);
  const scope = isPageLimit ? page : admission.scope;
  if (needed === 'admin_key' && name === null) {
    throw new SvcError('UNAUTHORIZED', 'this route needs an API key of scope admin, on this machine too', {
      hint: 'open the console with `svc open`, or use the svc command itself; or make a key: svc key add NAME --scope admin; every program needs one then',
    });
  }
  const least = needed === 'admin_key' ? 'admin' : needed;
  if (least !== 'probe' && !allows(scope, least)) {
    const who = isPageLimit ? 'the origin of this page' : 'this API key';
    throw new SvcError('FORBIDDEN', `${who} has the scope ${scope}, but the route needs ${least}`, {
      hint: isPageLimit
        ? `give the origin that scope in http.origins: {"origin": …, "scope": "${least}"}`
        : `use a key of that scope: svc key add NAME --scope ${least}`,
    });
  }
  const { remoteAddress } = req.socket;
  const address = remoteAddress === undefined ? null : networkOf(remoteAddress);
  return { kind: name === null ? 'address' : 'key', name, address, scope, ...given({ limits }) };
}

/** OpenAI's clients send `authorization`, Anthropic's either header. */
function keysOf({ headers }: Arrival): string[] {
  const bearer = /^Bearer +(\S+)$/i.exec(headers.authorization ?? '')?.[1];
  const other = headers['x-api-key'];
  return [bearer, other].filter((key): key is string => typeof key === 'string' && key !== '');
}
