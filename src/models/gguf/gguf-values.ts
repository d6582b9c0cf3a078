/** What a GGUF header holds: metadata and descriptions of tensors. */
import type { TensorType } from './ggml-types.ts';

/**
 * An array value that is not read: `start` and `end` bound its elements in the file. Also used for a text of more
 * than GGUF_LIMITS.textBytes, as an array of its bytes.
 */
export interface GgufArray {
  readonly elementType: number;
  readonly count: number;
  readonly start: number;
  readonly end: number;
}

export interface GgufEntry {
  /** VALUE_TYPE in the file. */
  readonly type: number;
  /** 64-bit integers that a number cannot represent exactly are bigints. */
  readonly value: string | number | bigint | boolean | GgufArray;
  /** The bytes of the entry in the file: key, type and value. */
  readonly start: number;
  readonly end: number;
}

export interface GgufTensor {
  readonly name: string;
  readonly shape: readonly number[];
  readonly type: TensorType;
  /** From the beginning of the file. */
  readonly offset: number;
  readonly bytes: number;
}

export interface GgufHeader {
  readonly version: number;
  readonly metadata: ReadonlyMap<string, GgufEntry>;
  readonly tensors: readonly GgufTensor[];
}
