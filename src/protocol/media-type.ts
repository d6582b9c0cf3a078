/** Detects the type of a picture or sound from its first bytes. */
import type { AudioPart, ContentPart } from './generate.ts';

type Image = Extract<ContentPart, { type: 'image' }>;

export function imageType(bytes: Buffer): Image['media_type'] | undefined {
  const head = bytes.subarray(0, 12).toString('latin1');
  if (head.startsWith('\x89PNG\r\n\x1a\n')) return 'image/png';
  if (head.startsWith('\xff\xd8\xff')) return 'image/jpeg';
  if (/^GIF8[79]a/.test(head)) return 'image/gif';
  if (/^RIFF.{4}WEBP/s.test(head)) return 'image/webp';
  return undefined;
}

export function soundType(bytes: Buffer): AudioPart['media_type'] | undefined {
  const head = bytes.subarray(0, 12).toString('latin1');
  if (/^RIFF.{4}WAVE/s.test(head)) return 'audio/wav';
  if (head.startsWith('fLaC')) return 'audio/flac';
  if (/^(ID3|\xff[\xe0-\xff])/.test(head)) return 'audio/mpeg';
  return undefined;
}
