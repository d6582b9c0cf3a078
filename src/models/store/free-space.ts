/** Check of free disk space, before a large file is written. */
import { stat, statfs } from 'node:fs/promises';
import { dirname } from 'node:path';
import { SvcError } from '../../protocol/errors.ts';

/** Space that must stay free on the disk. */
export const SPARE_BYTES = 256 * 1024 * 1024;

/** @param path need not exist yet. @throws SvcError CANNOT_WRITE */
export async function askForSpace(path: string, bytes: number, hint: string): Promise<void> {
  const { bavail, bsize } = await statfs(await nearest(path));
  const free = bavail * bsize;
  if (bytes === 0 || free >= bytes + SPARE_BYTES) return;
  const gigabytes = (count: number): string => `${(count / 1e9).toFixed(2)} GB`;
  throw new SvcError(
    'CANNOT_WRITE',
    `not enough disk space for ${path}: ${gigabytes(free)} free, ${gigabytes(bytes + SPARE_BYTES)} needed`,
    { hint },
  );
}

/** The path, or its nearest parent folder that exists. */
export async function nearest(path: string): Promise<string> {
  const found = await stat(path).catch(() => null);
  return found !== null || dirname(path) === path ? path : await nearest(dirname(path));
}
