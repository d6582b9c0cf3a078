/** Room on a disk, asked for before anything large is written. */
import { stat, statfs } from 'node:fs/promises';
import { dirname } from 'node:path';
import { SvcError } from '../protocol/errors.ts';

/** What a disk keeps for all else. */
const SPARE_BYTES = 256 * 1024 * 1024;

/** @param path need not be there yet. @throws SvcError CANNOT_WRITE */
export async function askForSpace(path: string, bytes: number, hint: string): Promise<void> {
  const { bavail, bsize } = await statfs(await nearest(path));
  const free = bavail * bsize;
  if (bytes === 0 || free >= bytes + SPARE_BYTES) return;
  const gigabytes = (count: number): string => `${(count / 1e9).toFixed(2)} GB`;
  throw new SvcError(
    'CANNOT_WRITE',
    `the disk of ${path} has ${gigabytes(free)} free, and ${gigabytes(bytes + SPARE_BYTES)} are needed`,
    { hint },
  );
}

/** The path, or the first of the folders above it that is there. */
export async function nearest(path: string): Promise<string> {
  const found = await stat(path).catch(() => null);
  return found !== null || dirname(path) === path ? path : await nearest(dirname(path));
}
