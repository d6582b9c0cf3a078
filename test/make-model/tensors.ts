/** Matrices and vectors of random weights, for models of every architecture. */
import type { Encoding } from './quantize.ts';
import type { RandomRows } from './random.ts';
import { TOKEN_TYPE, type Vocabulary } from './vocabulary.ts';
import type { TensorPlan } from './writer.ts';

export interface Tensor extends TensorPlan {
  readonly weights: RandomRows;
}

/** Standard deviation of weights such that a dot product of this length keeps the deviation of its input. */
export function perRoot(length: number): number {
  return 1 / Math.sqrt(length);
}

export function matrices(
  encoding: Encoding,
): (name: string, inputs: number, outputs: number, deviation: number) => Tensor {
  return (name, inputs, outputs, deviation) => ({
    name,
    shape: [inputs, outputs],
    encoding,
    weights: { name, rows: outputs, rowLength: inputs, mean: 0, deviation },
  });
}

/** A vector, always F32, because llama.cpp requires it for any type of matrices. */
export function vector(name: string, length: number, mean: number, deviation: number): Tensor {
  return { name, shape: [length], encoding: 'F32', weights: { name, rows: 1, rowLength: length, mean, deviation } };
}

/** Scale of a token's row: 1 for text, `others` for control, byte and unused tokens. */
export function textOnly(vocabulary: Vocabulary, others: number): (token: number) => number {
  return (token) => (vocabulary.types[token] === TOKEN_TYPE.normal ? 1 : others);
}
