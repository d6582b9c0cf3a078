/** What models of every architecture are made of: matrices and vectors of random weights. */
import type { Encoding } from './quantize.ts';
import type { RandomRows } from './random.ts';
import { TOKEN_TYPE, type Vocabulary } from './vocabulary.ts';
import type { TensorPlan } from './writer.ts';

export interface Tensor extends TensorPlan {
  readonly weights: RandomRows;
}

/** The deviation of weights that keep the deviation of what goes through `length` of them. */
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

/** llama.cpp wants vectors in F32 whatever the matrices are. */
export function vector(name: string, length: number, mean: number, deviation: number): Tensor {
  return { name, shape: [length], encoding: 'F32', weights: { name, rows: 1, rowLength: length, mean, deviation } };
}

/** The scale of a token's row: 1 for text, `others` for control, byte and unused tokens. */
export function textOnly(vocabulary: Vocabulary, others: number): (token: number) => number {
  return (token) => (vocabulary.types[token] === TOKEN_TYPE.normal ? 1 : others);
}
