/** Finds which program listens on a TCP port. */
import { readdirSync, readFileSync, readlinkSync } from 'node:fs';

/** State of a listening socket in /proc/net/tcp. */
const LISTENING = '0A';

/**
 * Returns for example `node (pid 123)`; undefined where it cannot be found: on systems other than Linux, and for
 * programs of other users.
 */
export function holderOfPort(port: number): string | undefined {
  const sockets = new Set(['/proc/net/tcp', '/proc/net/tcp6'].flatMap((file) => listeningOn(port, file)));
  if (sockets.size === 0) return undefined;
  for (const pid of entriesOf('/proc').filter((name) => /^\d+$/.test(name))) {
    const holds = entriesOf(`/proc/${pid}/fd`).some((fd) => sockets.has(linkOf(`/proc/${pid}/fd/${fd}`)));
    if (holds) return `${readOr(`/proc/${pid}/comm`).trim()} (pid ${pid})`;
  }
  return undefined;
}

/** Sockets that listen on `port`, as links in /proc/PID/fd show them. */
function listeningOn(port: number, file: string): string[] {
  const suffix = `:${port.toString(16).toUpperCase().padStart(4, '0')}`;
  return readOr(file)
    .split('\n')
    .slice(1)
    .map((line) => line.trim().split(/\s+/))
    .filter(([, local = '', , state]) => local.endsWith(suffix) && state === LISTENING)
    .map((fields) => `socket:[${fields[9] ?? ''}]`);
}

function entriesOf(directory: string): string[] {
  return orEmpty(() => readdirSync(directory), []);
}

function linkOf(path: string): string {
  return orEmpty(() => readlinkSync(path), '');
}

function readOr(file: string): string {
  return orEmpty(() => readFileSync(file, 'utf8'), '');
}

/** Processes and descriptors come and go, and those of other users cannot be read. */
function orEmpty<Value>(read: () => Value, empty: Value): Value {
  try {
    return read();
  } catch {
    return empty;
  }
}
