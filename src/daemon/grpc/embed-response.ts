/**
 * Encodes svc.v1.EmbedResponse. protobufjs would handle each number separately, and two million numbers would block the
 * event loop for seconds. Packed floats have the same bytes on the wire as in memory, so they are copied here.
 */
import type { ServiceDefinition } from '@grpc/proto-loader';
import type { Definitions } from '../../grpc/definitions.ts';

const MESSAGE = 'svc.v1.EmbedResponse';
const VECTOR_MESSAGE = 'svc.v1.Embedding';

/** An answer whose `embeddings` are Float32Arrays. */
export interface EmbedAnswer {
  readonly embeddings: readonly Float32Array[];
}

/** svc.v1.Inference, whose `Embed` answers with an EmbedAnswer. */
export function inferenceService(definitions: Definitions): ServiceDefinition {
  const { Embed, ...others } = definitions.service('svc.v1.Inference');
  if (Embed === undefined) throw new Error('proto/ does not define Embed');
  return { ...others, Embed: { ...Embed, responseSerialize: serializer(definitions) } };
}

function serializer(definitions: Definitions): (answer: object) => Buffer {
  const outer = tagOf(definitions, MESSAGE, 'embeddings');
  const inner = tagOf(definitions, VECTOR_MESSAGE, 'values');
  return (answer) => {
    const { embeddings, ...rest } = answer as EmbedAnswer;
    const vectors = embeddings.flatMap((vector) => {
      const head = [inner, ...varint(vector.byteLength)];
      return [
        Buffer.from([outer, ...varint(head.length + vector.byteLength), ...head]),
        new Uint8Array(vector.buffer, vector.byteOffset, vector.byteLength),
      ];
    });
    return Buffer.concat([definitions.encode(MESSAGE, rest), ...vectors]);
  };
}

/** Tag byte of a length-delimited field. REQUIRES: the field's number is below 16. */
function tagOf(definitions: Definitions, message: string, field: string): number {
  const LENGTH_DELIMITED = 2;
  const number = definitions.fields(message).find(({ name }) => name === field)?.number ?? 0;
  return (number << 3) | LENGTH_DELIMITED;
}

/** Encodes a varint: seven bits per byte, the lowest first; the highest bit is set if more bytes follow. */
function varint(value: number): number[] {
  const bytes: number[] = [];
  let rest = value;
  for (; rest > 0x7f; rest >>>= 7) bytes.push((rest & 0x7f) | 0x80);
  return [...bytes, rest];
}
