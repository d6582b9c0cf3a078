/** Reads images for a prompt. The type of a file is detected from its first bytes, not from its name. */
import { open } from 'node:fs/promises';
import { SvcError } from '../../protocol/errors.ts';
import type { ContentPart } from '../../protocol/generate.ts';
import { LIMITS } from '../../protocol/limits.ts';

type Image = Extract<ContentPart, { type: 'image' }>;

/** Throws INPUT_INVALID for a file that is not an image, REQUEST_TOO_LARGE if they are too large together. */
export async function readImages(paths: readonly string[]): Promise<Image[]> {
  const images: Image[] = [];
  let left = LIMITS.imageBytes;
  for (const path of paths) {
    const bytes = await readAtMost(path, left);
    left -= bytes.length;
    const media_type = typeOf(bytes);
    if (media_type === undefined) {
      throw new SvcError('INPUT_INVALID', `${path} is not a PNG, JPEG, GIF or WebP image`, {
        hint: 'convert it first',
      });
    }
    images.push({ type: 'image', media_type, data: bytes.toString('base64') });
  }
  return images;
}

async function readAtMost(path: string, limit: number): Promise<Buffer> {
  try {
    const file = await open(path);
    try {
      const stats = await file.stat();
      if (!stats.isFile()) throw new SvcError('INPUT_INVALID', `${path} is not a file`);
      if (stats.size > limit) {
        throw new SvcError(
          'REQUEST_TOO_LARGE',
          `the images have more than ${String(LIMITS.imageBytes)} bytes together`,
          {
            hint: 'make them smaller: models scale images down anyway',
          },
        );
      }
      return await file.readFile();
    } finally {
      await file.close();
    }
  } catch (error) {
    if (error instanceof SvcError) throw error;
    const { code = 'no reason given' } = error as NodeJS.ErrnoException;
    throw new SvcError('INPUT_INVALID', `cannot read ${path}: ${code}`, { cause: error });
  }
}

function typeOf(bytes: Buffer): Image['media_type'] | undefined {
  const head = bytes.subarray(0, 12).toString('latin1');
  if (head.startsWith('\x89PNG\r\n\x1a\n')) return 'image/png';
  if (head.startsWith('\xff\xd8\xff')) return 'image/jpeg';
  if (/^GIF8[79]a/.test(head)) return 'image/gif';
  if (/^RIFF.{4}WEBP/s.test(head)) return 'image/webp';
  return undefined;
}
