/**
 * The gRPC definitions of client and server: the files of proto/, read at run time. No code is generated, so each
 * message has one definition and no tool has to be installed. Loading takes 25 ms, and happens only when gRPC is used.
 */
import {
  loadSync,
  type MessageTypeDefinition,
  type PackageDefinition,
  type ServiceDefinition,
} from '@grpc/proto-loader';
import { ownFile } from '../process/own-files.ts';

const FILES = [
  'svc/v1/runtime.proto',
  'svc/v1/inference.proto',
  'google/rpc/status.proto',
  'google/rpc/error_details.proto',
];

/** A field of a message, from its descriptor. */
export interface Field {
  readonly name: string;
  readonly number: number;
  readonly isRepeated: boolean;
  /** Full name of the field's message type; null: the field is a scalar. */
  readonly message: string | null;
  /** protoc's name of the type: `TYPE_UINT32`. */
  readonly type: string;
}

export class Definitions {
  /** All definitions, for server reflection. */
  readonly all: PackageDefinition;
  readonly #fields = new Map<string, readonly Field[]>();

  /** `others`: paths of .proto files of packages. */
  constructor(others: readonly string[] = []) {
    this.all = loadSync([...FILES, ...others], {
      keepCase: true,
      longs: Number,
      enums: String,
      defaults: true,
      oneofs: true,
      includeDirs: [ownFile('proto')],
    });
  }

  service(name: string): ServiceDefinition {
    return this.#find(name) as ServiceDefinition;
  }

  encode(message: string, value: object): Buffer {
    return this.#message(message).serialize(value);
  }

  decode(message: string, bytes: Buffer): Readonly<Record<string, unknown>> {
    return this.#message(message).deserialize(bytes) as Record<string, unknown>;
  }

  has(message: string): boolean {
    return this.all[message] !== undefined;
  }

  /** Fields of a message, in the order of the file. */
  fields(message: string): readonly Field[] {
    let fields = this.#fields.get(message);
    if (fields === undefined) {
      fields = this.#readFields(message);
      this.#fields.set(message, fields);
    }
    return fields;
  }

  #readFields(message: string): readonly Field[] {
    const { field } = this.#message(message).type as {
      readonly field: readonly {
        readonly name: string;
        readonly number: number;
        readonly label: string;
        readonly typeName: string;
        readonly type: string;
      }[];
    };
    const scope = message.slice(0, message.lastIndexOf('.') + 1);
    return field.map(({ name, number, label, typeName, type }) => ({
      name,
      number,
      isRepeated: label === 'LABEL_REPEATED',
      message: typeName === '' ? null : typeName.includes('.') ? typeName : scope + typeName,
      type,
    }));
  }

  #message(name: string): MessageTypeDefinition<object, object> {
    return this.#find(name) as MessageTypeDefinition<object, object>;
  }

  #find(name: string): PackageDefinition[string] {
    const found = this.all[name];
    if (found === undefined) throw new Error(`proto/ does not define ${name}`);
    return found;
  }
}
