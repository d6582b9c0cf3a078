/** Quantising a model: the request over HTTP, and the events of the route and of `svc model quantize --json`. */
import type { ModelRecord } from '../records.ts';
import type { BytesDone } from '../routes.ts';

export interface QuantizeWishes {
  readonly model: string;
  /** Name of the type, in upper or lower case. */
  readonly type: string;
  /** Id of the new model. Absent: made from the source's id and the type. */
  readonly name?: string;
  /** true: accepts a source whose weights are quantised already. */
  readonly allow_requantize?: boolean;
}

/** Types that a page offers, of all that can be made; what each is good for. */
export const COMMON_TYPES = {
  Q8_0: 'half the size of F16, nearly the same answers',
  Q6_K: 'a little smaller',
  Q5_K_M: 'smaller, little loss',
  Q4_K_M: 'a good compromise, a third of the size',
  IQ4_XS: 'a little smaller than Q4_K_M',
  Q3_K_M: 'for a lack of memory, with a loss',
} as const;

export type QuantizeEvent =
  | {
      readonly type: 'planned';
      readonly model: string;
      readonly source: string;
      readonly quantization: string;
      readonly source_bytes: number;
      /** Size of the new file. */
      readonly expected_bytes: number;
    }
  /** Bytes of the source's weights; with stage `checking`, when the digest is computed, of the new file. */
  | ({ readonly type: 'progress'; readonly stage: 'quantizing' | 'checking' } & BytesDone)
  | { readonly type: 'quantized'; readonly model: ModelRecord };
