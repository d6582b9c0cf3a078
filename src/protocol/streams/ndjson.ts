/** Newline-delimited JSON, and vectors in it. */

export const NDJSON_CONTENT_TYPE = 'application/x-ndjson; charset=utf-8';

/** JSON escapes line breaks in strings, so the line break at the end is the only one. */
export function ndjsonLine(value: unknown): string {
  return `${JSON.stringify(value)}\n`;
}

/** Returns base64 of the vector's 32-bit floats, little-endian: exact, and half as long as decimal numbers. */
export function encodeVector(vector: Float32Array): string {
  return Buffer.from(vector.buffer, vector.byteOffset, vector.byteLength).toString('base64');
}

/** Reverses encodeVector. */
export function decodeVector(text: string): Float32Array {
  const bytes = Buffer.from(text, 'base64');
  const vector = new Float32Array(Math.floor(bytes.length / Float32Array.BYTES_PER_ELEMENT));
  bytes.copy(new Uint8Array(vector.buffer));
  return vector;
}
