/** `address` as the daemon states it. Bound to all addresses, it is reached from this machine by these. */
export function reachable(address: string): string {
  return address.replace(/^0\.0\.0\.0:/, '127.0.0.1:').replace(/^\[::\]:/, '[::1]:');
}
