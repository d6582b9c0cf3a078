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
