/** Tells when the running daemon is of another version than this command, or than what is installed now. */
import { VERSION } from '../../config/version.ts';
import type { StatusRecord } from '../../protocol/records.ts';
import { say } from '../terminal/output.ts';

type Versions = Pick<StatusRecord, 'version'> & Partial<Pick<StatusRecord, 'installed_version'>>;

/** Returns null if all is of one version, or no daemon runs. Older daemons do not report what is installed. */
export function otherVersion({ version, installed_version: installed = null }: Versions): string | null {
  if (version === null) return null;
  if (version !== VERSION) return `the daemon has version ${version}, this command ${VERSION}`;
  if (installed === null || installed === version) return null;
  return `the daemon has version ${version}, and ${installed} is installed in its place`;
}

export function sayIfOther(versions: Versions): void {
  const other = otherVersion(versions);
  if (other !== null) say(`${other}: run \`svc restart\``);
}
