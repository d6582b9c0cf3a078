/**
 * Requests as bytes. The library would decode each message on arrival and hold the result for as long as the client
 * leaves its side of the call open. Here the library passes on the bytes; the guard measures their cost and decodes
 * them when the request is complete.
 */
import type { ServiceDefinition } from '@grpc/proto-loader';
import type { Definitions } from '../../grpc/definitions.ts';
import { WireGauge } from '../../grpc/wire-gauge.ts';
import { LIMITS } from '../../protocol/generate.ts';
import { invalid } from '../../protocol/validate.ts';
import { MAX_VALUES } from '../../files/json-gauge.ts';

/** Upper bound of the memory of one decoded value; 257 bytes were measured for an empty message in `messages`. */
export const VALUE_BYTES = 320;

interface Method {
  readonly type: string;
  decode(bytes: Buffer): object;
}

export class Requests {
  readonly #gauge: WireGauge;
  readonly #methods = new Map<string, Method>();

  constructor(definitions: Definitions) {
    this.#gauge = new WireGauge(definitions, { values: MAX_VALUES, messages: LIMITS.messages });
  }

  /** Returns `service` with requests that stay bytes. */
  undecoded(service: ServiceDefinition): ServiceDefinition {
    return Object.fromEntries(
      Object.entries(service).map(([name, method]) => {
        const { type } = method.requestType;
        const scope = method.path.slice(1, method.path.lastIndexOf('.') + 1);
        this.#methods.set(method.path, {
          type: scope + (type as { readonly name: string }).name,
          decode: method.requestDeserialize,
        });
        return [name, { ...method, requestDeserialize: (bytes: Buffer): object => bytes }];
      }),
    );
  }

  /** Bytes of memory that the decoded request takes. Throws INVALID_REQUEST. */
  weigh(path: string, bytes: Buffer): number {
    return bytes.length + VALUE_BYTES * this.#gauge.measure(this.#method(path).type, bytes);
  }

  /** Decodes a request. REQUIRES: `weigh` accepted it. Throws INVALID_REQUEST. */
  decode(path: string, bytes: Buffer): object {
    try {
      return this.#method(path).decode(bytes);
    } catch {
      throw invalid(undefined, 'is not a valid protobuf message');
    }
  }

  #method(path: string): Method {
    const method = this.#methods.get(path);
    if (method === undefined) throw new Error('the requests of this method are decoded by the library');
    return method;
  }
}
