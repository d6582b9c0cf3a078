/** Encodes rows of floats for ggml, byte for byte as ggml's reference quantiser. */
export type Encoding = 'F32' | 'F16' | 'Q8_0' | 'Q4_0';

const BLOCK = 32;
const Q8_BLOCK_BYTES = 2 + BLOCK;
const Q4_BLOCK_BYTES = 2 + BLOCK / 2;

/** ggml's type number. */
export const TYPE_NUMBER: Readonly<Record<Encoding, number>> = { F32: 0, F16: 1, Q4_0: 2, Q8_0: 8 };
/** `general.file_type` of a file whose tensors are mostly of this type. */
export const FILE_TYPE_NUMBER: Readonly<Record<Encoding, number>> = { F32: 0, F16: 1, Q4_0: 2, Q8_0: 7 };

/** Encoded size. REQUIRES: for the quantised types, `values` is a multiple of 32. */
export function encodedBytes(encoding: Encoding, values: number): number {
  switch (encoding) {
    case 'F32':
      return values * 4;
    case 'F16':
      return values * 2;
    case 'Q8_0':
      return (values / BLOCK) * Q8_BLOCK_BYTES;
    case 'Q4_0':
      return (values / BLOCK) * Q4_BLOCK_BYTES;
  }
}

export function encode(encoding: Encoding, values: Float32Array): Uint8Array {
  const bytes = new Uint8Array(encodedBytes(encoding, values.length));
  switch (encoding) {
    case 'F32':
      bytes.set(new Uint8Array(values.buffer, values.byteOffset, values.byteLength));
      break;
    case 'F16':
      encodeHalves(values, bytes);
      break;
    case 'Q8_0':
      encodeQ8(values, bytes);
      break;
    case 'Q4_0':
      encodeQ4(values, bytes);
      break;
  }
  return bytes;
}

function encodeHalves(values: Float32Array, bytes: Uint8Array): void {
  const halves = new Uint16Array(bytes.buffer);
  for (let index = 0; index < values.length; index += 1) halves[index] = toHalf(values[index]!);
}

/** A block is a half-precision scale and 32 signed bytes. */
function encodeQ8(values: Float32Array, bytes: Uint8Array): void {
  for (let start = 0, out = 0; start < values.length; start += BLOCK, out += Q8_BLOCK_BYTES) {
    let largest = 0;
    for (let index = start; index < start + BLOCK; index += 1) largest = Math.max(largest, Math.abs(values[index]!));
    const scale = Math.fround(largest / 127);
    const inverse = scale === 0 ? 0 : Math.fround(1 / scale);
    writeHalf(bytes, out, scale);
    for (let index = 0; index < BLOCK; index += 1) {
      bytes[out + 2 + index] = roundHalfAway(Math.fround(values[start + index]! * inverse));
    }
  }
}

/** A block is a half-precision scale and 32 nibbles, value 8 standing for zero: byte i holds values i and i + 16. */
function encodeQ4(values: Float32Array, bytes: Uint8Array): void {
  for (let start = 0, out = 0; start < values.length; start += BLOCK, out += Q4_BLOCK_BYTES) {
    let extreme = 0;
    for (let index = start; index < start + BLOCK; index += 1) {
      if (Math.abs(values[index]!) > Math.abs(extreme)) extreme = values[index]!;
    }
    const scale = Math.fround(extreme / -8);
    const inverse = scale === 0 ? 0 : Math.fround(1 / scale);
    writeHalf(bytes, out, scale);
    for (let index = 0; index < BLOCK / 2; index += 1) {
      const low = nibble(values[start + index]!, inverse);
      const high = nibble(values[start + BLOCK / 2 + index]!, inverse);
      bytes[out + 2 + index] = low | (high << 4);
    }
  }
}

function nibble(value: number, inverse: number): number {
  return Math.min(15, Math.trunc(Math.fround(Math.fround(value * inverse) + 8.5)));
}

/** As roundf in C: halves away from zero. Math.round rounds halves up. */
function roundHalfAway(value: number): number {
  return value < 0 ? -Math.round(-value) : Math.round(value);
}

function writeHalf(bytes: Uint8Array, offset: number, value: number): void {
  const half = toHalf(value);
  bytes[offset] = half & 0xff;
  bytes[offset + 1] = half >> 8;
}

const float = new Float32Array(1);
const bits = new Uint32Array(float.buffer);

/** Converts to IEEE 754 binary16, rounding to nearest, ties to even. */
export function toHalf(value: number): number {
  float[0] = value;
  const pattern = bits[0]!;
  const sign = (pattern >>> 16) & 0x8000;
  const magnitude = pattern & 0x7fff_ffff;
  if (magnitude > 0x7f80_0000) return sign | 0x7e00;
  if (magnitude >= 0x4780_0000) return sign | 0x7c00;
  if (magnitude < 0x3880_0000) {
    // Subnormal in half precision: adding 0.5 shifts the mantissa into place with the rounding of the CPU.
    float[0] = Math.abs(value) + 0.5;
    return sign | (bits[0]! - 0x3f00_0000);
  }
  const odd = (magnitude >>> 13) & 1;
  return sign | ((magnitude - 0x3800_0000 + 0xfff + odd) >>> 13);
}
