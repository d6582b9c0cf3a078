/**
 * Variables with which an agent reaches svc directly. With only `HTTP_PROXY` set, agents send requests for any address
 * to that proxy: it would get the prompts and the key in plain text.
 */
import { variable } from '../../../process/environment.ts';

/** This machine: an agent may also replace the host of the URL by one of these. Readers differ on brackets. */
const LOOPBACK = ['localhost', '127.0.0.1', '::1', '[::1]'];
const EVERY_HOST = '*';

/** Returns both spellings of NO_PROXY with their present entries, the host of `url` and those of this machine. */
export function pastProxies(url: string): Record<'NO_PROXY' | 'no_proxy', string> {
  const { hostname } = new URL(url);
  const own = [...new Set([hostname, hostname.replace(/^\[(.*)\]$/, '$1'), ...LOOPBACK])];
  const upper = variable('NO_PROXY');
  const lower = variable('no_proxy');
  // Some readers use one spelling and ignore the other: the new one must not hide the entries of the old one.
  return { NO_PROXY: withHosts(upper ?? lower, own), no_proxy: withHosts(lower ?? upper, own) };
}

function withHosts(entries: string | undefined, hosts: readonly string[]): string {
  // Beside other entries, `*` would no longer mean every host.
  if (entries?.trim() === EVERY_HOST) return EVERY_HOST;
  return [...(entries === undefined ? [] : [entries]), ...hosts].join(',');
}
