/** Reads images and sounds for a prompt. The type of a file is detected from its first bytes, not from its name. */
import { open } from 'node:fs/promises';
import { whyOf } from '../../files/why.ts';
import { SvcError } from '../../protocol/errors.ts';
import type { ContentPart } from '../../protocol/generate.ts';
import { LIMITS } from '../../protocol/limits.ts';
import { imageType, soundType } from '../../protocol/media-type.ts';

/**
 * Images first. Throws INPUT_INVALID for a file of another type, REQUEST_TOO_LARGE if they are too large together.
 */
export async function readMedia(images: readonly string[], sounds: readonly string[]): Promise<ContentPart[]> {
  const parts: ContentPart[] = [];
  let left = LIMITS.mediaBytes;
  const read = async <Type>(path: string, typeOf: (bytes: Buffer) => Type | undefined, wanted: string) => {
    const bytes = await readAtMost(path, left);
    left -= bytes.length;
    return { media_type: typeOf(bytes) ?? refuse(path, wanted), data: bytes.toString('base64') };
  };
  for (const path of images) {
    parts.push({ type: 'image', ...(await read(path, imageType, 'a PNG, JPEG, GIF or WebP image')) });
  }
  for (const path of sounds) {
    parts.push({ type: 'audio', ...(await read(path, soundType, 'a WAV, MP3 or FLAC file')) });
  }
  return parts;
}

function refuse(path: string, wanted: string): never {
  throw new SvcError('INPUT_INVALID', `${path} is not ${wanted}`, { hint: 'convert it first' });
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
          `the images and sounds have more than ${String(LIMITS.mediaBytes)} bytes together`,
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
    throw new SvcError('INPUT_INVALID', `cannot read ${path}: ${whyOf(error)}`, { cause: error });
  }
}
