/** An address to connect to. Apart from address.ts, whose schemas need a library that few commands load. */

/** Returns the address to connect to: an `address` bound to all interfaces is replaced by loopback. */
export function reachable(address: string): string {
  return address.replace(/^0\.0\.0\.0:/, '127.0.0.1:').replace(/^\[::\]:/, '[::1]:');
}
