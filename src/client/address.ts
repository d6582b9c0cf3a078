/** Returns the address to connect to: an `address` bound to all interfaces is replaced by loopback. */
export function reachable(address: string): string {
  return address.replace(/^0\.0\.0\.0:/, '127.0.0.1:').replace(/^\[::\]:/, '[::1]:');
}
