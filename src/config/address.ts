/** Addresses to listen on: `host:port`, or `[v6]:port`. */
import * as v from 'valibot';

export interface Address {
  readonly host: string;
  /** 0: any free port. */
  readonly port: number;
}

/** Returns undefined for anything else. */
export function addressOf(text: string): Address | undefined {
  const match = /^(?:\[([^\]]+)\]|([^:]+)):(\d{1,5})$/.exec(text);
  const host = match?.[1] ?? match?.[2];
  const port = Number(match?.[3]);
  return host === undefined || port > 65_535 ? undefined : { host, port };
}

/** REQUIRES: `text` has passed `address`. */
export function parseAddress(text: string): Address {
  const address = addressOf(text);
  if (address === undefined) throw new Error('the config has checked this address');
  return address;
}

export const address = v.pipe(
  v.string('must be host:port, or null'),
  v.check((text) => addressOf(text) !== undefined, 'must be host:port, for example 127.0.0.1:11434'),
);
