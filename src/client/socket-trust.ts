/**
 * Decides whether a control socket may be trusted with prompts and keys.
 *
 * The path of the socket is predictable where there is no XDG_RUNTIME_DIR, so another user of the machine can
 * create it first and pose as the daemon. The socket and its directory must therefore belong to this user or
 * to root, and nobody else may be able to replace the socket. Named pipes of Windows have no owner that Node can
 * read: there every pipe is trusted.
 */
import { lstatSync, statSync, type Stats } from 'node:fs';
import { dirname } from 'node:path';
import { SvcError } from '../protocol/errors.ts';

/**
 * Throws FORBIDDEN when another user owns or can replace the socket at `socketPath`. The file system's own errors
 * (ENOENT where there is no socket) are thrown as they are.
 */
export function requireTrustedSocket(socketPath: string): void {
  const fault = trustFault(socketPath);
  if (fault === undefined) return;
  throw new SvcError('FORBIDDEN', `the control socket cannot be trusted: ${fault}`, {
    hint: `remove ${dirname(socketPath)} if it is not yours, or set SVC_SOCKET to a path in a directory that only you can write to`,
  });
}

/** Why the socket cannot be trusted; undefined if it can. Throws the file system's own errors. */
export function trustFault(socketPath: string): string | undefined {
  if (process.platform === 'win32') return undefined;
  const directory = dirname(socketPath);
  // The directory first: in another user's directory the answer about the socket means nothing.
  // A link counts with its owner and with its target's.
  return (
    ownerFault(lstatSync(directory), directory) ??
    directoryFault(statSync(directory), directory) ??
    ownerFault(lstatSync(socketPath), socketPath)
  );
}

/** What is wrong with the owner of `path`; undefined if it is this user or root. */
export function ownerFault({ uid }: Stats, path: string): string | undefined {
  return uid === process.getuid?.() || uid === 0 ? undefined : `${path} belongs to user ${String(uid)}`;
}

function directoryFault(stats: Stats, path: string): string | undefined {
  // In a directory with the sticky bit, like /tmp, only the owner of a file can replace it.
  const canReplace = (stats.mode & 0o022) !== 0 && (stats.mode & 0o1000) === 0;
  return ownerFault(stats, path) ?? (canReplace ? `other users can write to ${path}` : undefined);
}
