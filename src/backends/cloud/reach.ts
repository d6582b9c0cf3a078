/** Applies net/reach.ts to providers: errors for hosts that a request may not reach. */
import type { lookup as dnsLookup } from 'node:dns';
import type { LookupFunction } from 'node:net';
import * as net from '../../net/reach.ts';
import type { AddressKind, Reach } from '../../net/reach.ts';
import { SvcError } from '../../protocol/errors.ts';

/** Throws PROVIDER_FAILED, not retryable, for a host outside `reach`. */
export function checkHost(hostname: string, reach: Reach): void {
  net.checkHost(hostname, reach, (name, kind) => outOfReach(name, kind, reach));
}

/** A lookup function that fails for names with any address outside `reach`. */
export function guardedLookup(reach: Reach, lookup?: typeof dnsLookup): LookupFunction {
  return net.guardedLookup(reach, (name, kind) => outOfReach(name, kind, reach), lookup);
}

function outOfReach(hostname: string, kind: AddressKind, reach: Reach): SvcError {
  const declare = 'if this is intended, declare it: svc provider set NAME --base-url URL';
  const [where, hint] = {
    forbidden: ['a forbidden address', 'svc never connects to link-local, metadata or multicast addresses'],
    loopback: ['this machine', declare],
    // With a key, plain http is allowed only on this machine.
    private: reach.has('loopback')
      ? ['a private network, where svc sends no key over plain http', 'use https']
      : ['a private network', declare],
    public: ['the internet, where svc sends nothing over plain http', 'use https'],
  }[kind];
  return new SvcError('PROVIDER_FAILED', `${hostname} leads to ${where ?? ''}`, { hint: hint ?? '', retryable: false });
}
