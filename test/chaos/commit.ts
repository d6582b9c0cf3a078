/** The checked-out commit. */
import { execFileSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));

export interface Commit {
  readonly hash: string;
  /** Subject line; a rebase keeps it but changes the hash. */
  readonly subject: string;
  /** YYYY-MM-DD. */
  readonly date: string;
  /** True if tracked files have uncommitted changes. */
  readonly isChanged: boolean;
}

/** Throws outside a git checkout. */
export function currentCommit(): Commit {
  const git = (...args: string[]): string => execFileSync('git', args, { cwd: ROOT, encoding: 'utf8' }).trim();
  const [hash = '', date = '', subject = ''] = git('log', '-1', '--format=%H%n%as%n%s').split('\n');
  return { hash, date, subject, isChanged: git('status', '--porcelain', '--untracked-files=no') !== '' };
}
