/** Which machines a request to a provider may reach, and what is said of those it may not (net/reach.ts). */
import type { lookup as dnsLookup } from 'node:dns';
import type { LookupFunction } from 'node:net';
import * as net from '../../net/reach.ts';
import type { AddressKind, Reach } from '../../net/reach.ts';
import { SvcError } from '../../protocol/errors.ts';

/** Throws PROVIDER_FAILED, never to be tried again, for a host outside of `reach`. */
export function checkHost(hostname: string, reach: Reach): void {
  net.checkHost(hostname, reach, (name, kind) => outOfReach(name, kind, reach));
}

/** Looks names up for a connection, and fails for those of which any address is out of reach. */
export function guardedLookup(reach: Reach, lookup?: typeof dnsLookup): LookupFunction {
  return net.guardedLookup(reach, (name, kind) => outOfReach(name, kind, reach), lookup);
}

function outOfReach(hostname: string, kind: AddressKind, reach: Reach): SvcError {
  const declare = 'if it is meant, declare it: svc provider set NAME --base-url URL';
  const [where, hint] = {
    forbidden: ['an address that no provider has', 'link-local, metadata and multicast addresses are never used'],
    loopback: ['this machine', declare],
    // Only plain http with a key stays on this machine.
    private: reach.has('loopback')
      ? ['a private network, where no key goes over plain http', 'use https']
      : ['a private network', declare],
    public: ['the internet, where nothing goes over plain http', 'use https'],
  }[kind];
  return new SvcError('PROVIDER_FAILED', `${hostname} leads to ${where ?? ''}`, { hint: hint ?? '', retryable: false });
}
