/** Reads the vectors of providers, and checks what svc promises of every vector: finite numbers, length 1. */
import { LIMITS } from '../../../protocol/limits.ts';
import { notTheApi } from '../answer.ts';

/** Servers that compute in 16 bits normalise to about three digits; their vectors are scaled, too. */
const TOLERANCE = 1e-4;
const BYTES = Float32Array.BYTES_PER_ELEMENT;
/** Digits of a number in JSON, with its comma. Base64 has 5.4. */
const DIGITS = 26;
const ENVELOPE_BYTES = 1024 * 1024;
const MOST_BYTES = 64 * 1024 * 1024;

/** Maximum bytes of a provider's answer with `count` vectors. */
export function answerBytes(count: number): number {
  return Math.min(MOST_BYTES, ENVELOPE_BYTES + count * LIMITS.embedDimensions * DIGITS);
}

/**
 * The vector that a provider sent as a list of numbers, or as base64 of 32-bit little-endian numbers. Scaled to length
 * 1 unless it has it. Throws PROVIDER_FAILED.
 */
export function toVector(sent: string | readonly unknown[]): Float32Array {
  const vector = typeof sent === 'string' ? fromBase64(sent) : fromNumbers(sent);
  const length = Math.sqrt(vector.reduce((sum, value) => sum + value * value, 0));
  if (!Number.isFinite(length)) throw notTheApi('a vector with numbers that are not finite');
  if (length === 0) throw notTheApi('a vector without numbers, or only with zeros');
  return Math.abs(length - 1) <= TOLERANCE ? vector : vector.map((value) => value / length);
}

function fromNumbers(sent: readonly unknown[]): Float32Array {
  checkDimensions(sent.length);
  const vector = new Float32Array(sent.length);
  for (const [index, value] of sent.entries()) vector[index] = typeof value === 'number' ? value : NaN;
  return vector;
}

function fromBase64(sent: string): Float32Array {
  checkDimensions(Math.floor(((sent.length / 4) * 3) / BYTES));
  const bytes = Buffer.from(sent, 'base64');
  // Node's decoder skips what is not base64.
  if (bytes.length % BYTES !== 0 || bytes.toString('base64') !== sent) throw notTheApi('a vector that is not base64');
  const vector = new Float32Array(bytes.length / BYTES);
  new Uint8Array(vector.buffer).set(bytes);
  return vector;
}

function checkDimensions(count: number): void {
  if (count > LIMITS.embedDimensions)
    throw notTheApi(`a vector with more than ${String(LIMITS.embedDimensions)} numbers`);
}
