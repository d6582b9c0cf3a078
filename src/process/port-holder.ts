/** Finds which program listens on a TCP port. */
import { readdirSync, readFileSync, readlinkSync } from 'node:fs';

/** State of a listening socket in /proc/net/tcp. */
const LISTENING = '0A';

interface Listener {
  /** As links in /proc/PID/fd show it. */
  readonly socket: string;
  readonly uid: number;
}

/**
 * Returns for example `node (pid 123)`; the program of a daemon is `svc serve`. Only root can see which ports daemons and
 * programs of other users hold. Otherwise the user is all that is known of the holder. undefined: not even the user is
 * known, as on systems other than Linux.
 */
export function holderOfPort(port: number): string | undefined {
  const listeners = ['/proc/net/tcp', '/proc/net/tcp6'].flatMap((file) => listenersOn(port, file));
  const [first] = listeners;
  if (first === undefined) return undefined;
  for (const pid of entriesOf('/proc').filter((name) => /^\d+$/.test(name))) {
    const links = new Set(entriesOf(`/proc/${pid}/fd`).map((fd) => linkOf(`/proc/${pid}/fd/${fd}`)));
    const held = listeners.find(({ socket }) => links.has(socket));
    if (held !== undefined) return `${readOr(`/proc/${pid}/comm`).trim()} (pid ${pid})${ownerOf(held)}`;
  }
  const owner = ownerOf(first);
  return owner === '' ? 'a program of yours, perhaps svc with another SVC_HOME' : `a program${owner}, perhaps svc`;
}

/** Empty for this user. */
function ownerOf({ uid }: Listener): string {
  return uid === process.getuid?.() ? '' : ` of the user ${nameOf(uid)}`;
}

/** Name of a user of this machine, otherwise the number. */
function nameOf(uid: number): string {
  const entries = readOr('/etc/passwd')
    .split('\n')
    .map((line) => line.split(':'));
  return entries.find((fields) => fields[2] === String(uid))?.[0] ?? String(uid);
}

function listenersOn(port: number, file: string): Listener[] {
  const suffix = `:${port.toString(16).toUpperCase().padStart(4, '0')}`;
  return readOr(file)
    .split('\n')
    .slice(1)
    .map((line) => line.trim().split(/\s+/))
    .filter(([, local = '', , state]) => local.endsWith(suffix) && state === LISTENING)
    .map((fields) => ({ socket: `socket:[${fields[9] ?? ''}]`, uid: Number(fields[7]) }));
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
