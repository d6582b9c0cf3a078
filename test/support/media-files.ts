/** Files of pictures and sounds, made here. */
import { deflateSync } from 'node:zlib';
import { fileURLToPath } from 'node:url';
import { join } from 'node:path';
import { crc32 } from './crc32.ts';

export function projectorPath(name: 'clip' | 'siglip' | 'qwen2-vl' | 'whisper'): string {
  return fileURLToPath(new URL(join('..', '..', 'build', 'models', 'projectors', `${name}.gguf`), import.meta.url));
}

type Color = readonly [number, number, number];

/** A PNG whose pixels are `color(x, y)`. */
export function png(width: number, height: number, color: (x: number, y: number) => Color): Buffer {
  const line = width * 3 + 1;
  const raw = Buffer.alloc(line * height);
  for (let y = 0; y < height; y++) {
    for (let x = 0; x < width; x++) raw.set(color(x, y), y * line + 1 + x * 3);
  }
  return pngOf(width, height, deflateSync(raw));
}

/** A PNG that declares this size, whatever its data unpacks to. */
export function pngOf(width: number, height: number, data: Buffer): Buffer {
  const head = Buffer.alloc(13);
  head.writeUInt32BE(width);
  head.writeUInt32BE(height, 4);
  head.set([8, 2], 8); // 8 bits, colours
  const signature = Buffer.from('\x89PNG\r\n\x1a\n', 'latin1');
  return Buffer.concat([signature, chunk('IHDR', head), chunk('IDAT', data), chunk('IEND', Buffer.alloc(0))]);
}

function chunk(type: string, data: Buffer): Buffer {
  const typed = Buffer.concat([Buffer.from(type, 'latin1'), data]);
  const [length, check] = [Buffer.alloc(4), Buffer.alloc(4)];
  length.writeUInt32BE(data.length);
  check.writeUInt32BE(crc32(typed));
  return Buffer.concat([length, typed, check]);
}

/** A tone of one channel with 16 bits. */
export function wav(samples: number, hertz: number, rate = 16_000): Buffer {
  const data = Buffer.alloc(samples * 2);
  for (let i = 0; i < samples; i++) {
    data.writeInt16LE(Math.round(20_000 * Math.sin((2 * Math.PI * hertz * i) / rate)), i * 2);
  }
  const head = Buffer.alloc(44);
  head.write('RIFF', 'latin1');
  head.writeUInt32LE(36 + data.length, 4);
  head.write('WAVEfmt ', 8, 'latin1');
  head.writeUInt32LE(16, 16);
  head.writeUInt16LE(1, 20); // PCM
  head.writeUInt16LE(1, 22); // channels
  head.writeUInt32LE(rate, 24);
  head.writeUInt32LE(rate * 2, 28);
  head.writeUInt16LE(2, 32);
  head.writeUInt16LE(16, 34);
  head.write('data', 36, 'latin1');
  head.writeUInt32LE(data.length, 40);
  return Buffer.concat([head, data]);
}
