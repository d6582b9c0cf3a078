/**
 * Requests as they lie on the wire. The library would decode each message as soon as it has arrived and
 * keep the result for as long as the client leaves its side of the call open. Here it hands on the
 * bytes; the guard decodes them when the request is complete, after their cost was measured.
 */
import type { ServiceDefinition } from '@grpc/proto-loader';
import type { Definitions } from '../../grpc/definitions.ts';
import { WireGauge } from '../../grpc/wire-gauge.ts';
import { LIMITS } from '../../protocol/generate.ts';
import { invalid } from '../../protocol/validate.ts';
import { MAX_VALUES } from '../http/json-gauge.ts';

/** Memory of one value once decoded and made a request of: 257 bytes were measured for an empty message of `messages`. */
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

  /** `service`, whose requests stay bytes. */
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

  /** REQUIRES: it was weighed. Throws INVALID_REQUEST. */
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
