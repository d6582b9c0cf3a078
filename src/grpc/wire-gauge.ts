/**
 * The cost of decoding a protobuf message, measured on its bytes without decoding them: the number of values
 * that the decoder would create, and whether the bytes are a valid message. Two bytes on the wire become an object of
 * several hundred bytes, so a limit on the length alone does not limit memory.
 */
import { invalid } from '../protocol/validate.ts';
import type { Definitions, Field } from './definitions.ts';

const VARINT = 0;
const FIXED64 = 1;
const DELIMITED = 2;
const FIXED32 = 5;
const MAX_VARINT_BYTES = 10;
const MAX_TAG = 2 ** 32 - 1;
const MORE = 0x80;

const WIRE_TYPES: Readonly<Record<string, number>> = {
  TYPE_DOUBLE: FIXED64,
  TYPE_FIXED64: FIXED64,
  TYPE_SFIXED64: FIXED64,
  TYPE_FLOAT: FIXED32,
  TYPE_FIXED32: FIXED32,
  TYPE_SFIXED32: FIXED32,
  TYPE_STRING: DELIMITED,
  TYPE_BYTES: DELIMITED,
  TYPE_MESSAGE: DELIMITED,
};

const NONE: ReadonlyMap<number, Field> = new Map();

export interface WireBounds {
  /** Fields, and elements of packed fields, at all levels. */
  readonly values: number;
  /** Messages in the fields of the outermost message. */
  readonly messages: number;
}

export class WireGauge {
  readonly #definitions: Definitions;
  readonly #fields = new Map<string, ReadonlyMap<number, Field>>();
  readonly #bounds: WireBounds;

  constructor(definitions: Definitions, bounds: WireBounds) {
    this.#definitions = definitions;
    this.#bounds = bounds;
  }

  /** Number of values in `bytes`, a message of `type`. Throws INVALID_REQUEST above a bound, or for invalid bytes. */
  measure(type: string, bytes: Uint8Array): number {
    return new Scan(bytes, this.#bounds, (name) => this.#fieldsOf(name)).run(type);
  }

  /** Fields of a message type; none for an unknown type, whose fields are all skipped. */
  #fieldsOf(type: string): ReadonlyMap<number, Field> {
    if (!this.#definitions.has(type)) return NONE;
    let fields = this.#fields.get(type);
    if (fields === undefined) {
      fields = new Map(this.#definitions.fields(type).map((field) => [field.number, field]));
      this.#fields.set(type, fields);
    }
    return fields;
  }
}

class Scan {
  readonly #bytes: Uint8Array;
  readonly #bounds: WireBounds;
  readonly #fieldsOf: (type: string) => ReadonlyMap<number, Field>;
  #at = 0;
  #values = 0;
  #messages = 0;
  /** The current field of the outermost message. */
  #field: string | undefined;

  constructor(bytes: Uint8Array, bounds: WireBounds, fieldsOf: (type: string) => ReadonlyMap<number, Field>) {
    this.#bytes = bytes;
    this.#bounds = bounds;
    this.#fieldsOf = fieldsOf;
  }

  run(type: string): number {
    this.#message(type, this.#bytes.length, true);
    return this.#values;
  }

  /** Scans a message. The recursion is bounded: no message in proto/ contains itself. */
  #message(type: string, end: number, isOutermost: boolean): void {
    const fields = this.#fieldsOf(type);
    while (this.#at < end) {
      const tag = this.#varint(end);
      if (tag > MAX_TAG) throw notAMessage();
      const field = fields.get(Math.floor(tag / 8));
      const wireType = tag % 8;
      if (isOutermost) this.#field = field?.name;
      // The decoder looks at the field number only, and would continue at another offset than this scan.
      if (field !== undefined && !isOfType(field, wireType)) throw notAMessage();
      this.#count(1);
      if (wireType === VARINT) this.#varint(end);
      else if (wireType === FIXED64) this.#skip(8, end);
      else if (wireType === FIXED32) this.#skip(4, end);
      else if (wireType === DELIMITED) this.#delimited(field, end, isOutermost);
      // Groups exist only in proto2; a decoder skips nested ones by unbounded recursion.
      else throw notAMessage();
    }
  }

  #delimited(field: Field | undefined, end: number, isOutermost: boolean): void {
    const length = this.#varint(end);
    const from = this.#at;
    if (length > end - from) throw notAMessage();
    const message = field?.message ?? null;
    if (message !== null) {
      if (isOutermost && (this.#messages += 1) > this.#bounds.messages)
        throw this.#tooMany('messages', this.#bounds.messages);
      this.#message(message, from + length, false);
    } else {
      if (field !== undefined && wireTypeOf(field) !== DELIMITED) this.#count(this.#packed(from, from + length));
      this.#at = from + length;
    }
  }

  /** Number of varints, or an upper bound on the number of fixed-width values. */
  #packed(from: number, to: number): number {
    let count = 0;
    for (let at = from; at < to; at += 1) if ((this.#bytes[at] as number) < MORE) count += 1;
    return Math.max(count, (to - from) / MAX_VARINT_BYTES);
  }

  #count(values: number): void {
    this.#values += values;
    if (this.#values > this.#bounds.values) throw this.#tooMany('values', this.#bounds.values);
  }

  #varint(end: number): number {
    let value = 0;
    let unit = 1;
    for (let length = 0; length < MAX_VARINT_BYTES && this.#at < end; length += 1) {
      const byte = this.#bytes[this.#at] as number;
      this.#at += 1;
      value += (byte % MORE) * unit;
      if (byte < MORE) return value;
      unit *= MORE;
    }
    throw notAMessage();
  }

  #tooMany(what: string, bound: number): Error {
    return invalid(this.#field, `has more than ${String(bound)} ${what}`);
  }

  #skip(length: number, end: number): void {
    if (length > end - this.#at) throw notAMessage();
    this.#at += length;
  }
}

function wireTypeOf({ type }: Field): number {
  return WIRE_TYPES[type] ?? VARINT;
}

function isOfType(field: Field, wireType: number): boolean {
  return wireType === wireTypeOf(field) || (field.isRepeated && wireType === DELIMITED);
}

function notAMessage(): Error {
  return invalid(undefined, 'is not a valid protobuf message');
}
