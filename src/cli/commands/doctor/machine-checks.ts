/** Checks of this process and this machine. */
import { totalmem } from 'node:os';
import { existsSync, statfsSync } from 'node:fs';
import { dirname } from 'node:path';
import { LEAST_NODE } from '../../../config/version.ts';
import type { Paths } from '../../../home/paths.ts';
import type { DoctorCheck } from '../../../protocol/doctor.ts';
import type { CheckStatus } from '../../../protocol/records.ts';
import { bytes } from '../../terminal/format.ts';
import { check, skipped } from './check.ts';

const GIB = 1024 ** 3;
const DISK = { warn: GIB, fail: GIB / 16 };
const MEMORY = { warn: GIB / 2, fail: GIB / 10 };

export function checkNode(): DoctorCheck {
  const { node } = process.versions;
  const value = `${node} on ${process.platform}-${process.arch}`;
  if (isAtLeast(node, LEAST_NODE)) return check('node', 'ok', value);
  const detail = `svc needs Node ${LEAST_NODE}`;
  return check('node', 'fail', value, { detail, hint: `install Node ${LEAST_NODE} or newer` });
}

/** Warns about root: svc needs no privileges, and an attacker who takes over the daemon has those of its user. */
export function checkUser(uid: number | undefined = process.getuid?.()): DoctorCheck {
  if (uid === undefined) return skipped('user', 'this system has no user ids');
  if (uid !== 0) return check('user', 'ok', `user ${String(uid)}`);
  return check('user', 'warn', 'root', {
    detail: 'svc needs no privileges; an attacker who takes over the daemon would be root',
    hint: 'run svc as an ordinary user',
  });
}

export function checkMemory(): DoctorCheck {
  const available = process.availableMemory();
  return check('memory', judge(available, MEMORY), `${bytes(available)} available of ${bytes(totalmem())}`, {
    hint: available < MEMORY.warn ? 'close other programs, or use a smaller model' : null,
  });
}

/** Checks the free space for models and for state and log. */
export function checkDisk(modelsDir: string, { stateDir }: Pick<Paths, 'stateDir'>): DoctorCheck {
  const places = [
    { what: 'models', directory: modelsDir },
    { what: 'state and log', directory: stateDir },
  ].map((place) => ({ ...place, free: freeBytes(place.directory) }));
  const least = Math.min(...places.map(({ free }) => free));
  const detail = places.map(({ what, directory, free }) => `${bytes(free)} for ${what} in ${directory}`).join('; ');
  return check('disk', judge(least, DISK), `${bytes(least)} free`, {
    detail,
    hint: least < DISK.warn ? 'free some space, or move models.dir or SVC_HOME to another disk' : null,
  });
}

/** Throws if the file system does not say. */
export function freeBytes(directory: string): number {
  const { bavail, bsize } = statfsSync(existingAncestor(directory));
  return bavail * bsize;
}

function judge(value: number, bound: { readonly warn: number; readonly fail: number }): CheckStatus {
  return value < bound.fail ? 'fail' : value < bound.warn ? 'warn' : 'ok';
}

/** The folder, or the nearest one above it that exists. */
function existingAncestor(path: string): string {
  return existsSync(path) || dirname(path) === path ? path : existingAncestor(dirname(path));
}

function isAtLeast(version: string, least: string): boolean {
  return version.localeCompare(least, 'en', { numeric: true }) >= 0;
}
