/**
 * Decides whether a control socket may be trusted with prompts and keys.
 *
 * Without XDG_RUNTIME_DIR the path of the socket is predictable, so another user could create it first and pose as the
 * daemon. Therefore the socket and its directory must belong to this user or to root, and other users must not be able
 * to replace the socket. On Windows, Node cannot read the owner of a named pipe; every pipe is trusted there.
 */
import { lstatSync, statSync, type Stats } from 'node:fs';
import { dirname } from 'node:path';
import { SvcError } from '../protocol/errors.ts';

/**
 * Throws FORBIDDEN if another user owns or can replace the socket at `socketPath`. Errors of the file system
 * (ENOENT without a socket) are thrown unchanged.
 */
export function requireTrustedSocket(socketPath: string): void {
  const fault = trustFault(socketPath);
  if (fault === undefined) return;
  throw new SvcError('FORBIDDEN', `the control socket cannot be trusted: ${fault}`, {
    hint: `remove ${dirname(socketPath)} if it is not yours, or set SVC_SOCKET to a path in a directory that only you can write to`,
  });
}

/** Returns why the socket cannot be trusted; undefined if it can. Throws errors of the file system. */
export function trustFault(socketPath: string): string | undefined {
  if (process.platform === 'win32') return undefined;
  const directory = dirname(socketPath);
  // The directory first: in another user's directory the state of the socket proves nothing.
  // For a symbolic link, both its owner and its target's owner count.
  return (
    ownerFault(lstatSync(directory), directory) ??
    directoryFault(statSync(directory), directory) ??
    ownerFault(lstatSync(socketPath), socketPath)
  );
}

/** Returns what is wrong with the owner of `path`; undefined if it is this user or root. */
export function ownerFault({ uid }: Stats, path: string): string | undefined {
  return uid === process.getuid?.() || uid === 0 ? undefined : `${path} belongs to user ${String(uid)}`;
}

function directoryFault(stats: Stats, path: string): string | undefined {
  // In a directory with the sticky bit, like /tmp, only the owner of a file can replace it.
  const canReplace = (stats.mode & 0o022) !== 0 && (stats.mode & 0o1000) === 0;
  return ownerFault(stats, path) ?? (canReplace ? `other users can write to ${path}` : undefined);
}
