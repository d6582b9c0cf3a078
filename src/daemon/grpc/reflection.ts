/**
 * Server reflection (v1 and v1alpha), implemented by @grpc/reflection. This file corrects the descriptors passed to the
 * package, and adds back-pressure to its answers.
 */
import type { Server, ServerDuplexStream, UntypedServiceImplementation } from '@grpc/grpc-js';
import { loadSync, type MessageTypeDefinition } from '@grpc/proto-loader';
import { ReflectionService } from '@grpc/reflection';
import type { Definitions } from '../../grpc/definitions.ts';

/** The services that are listed. Messages of error details are from googleapis, which clients have. */
const SERVICES = ['svc.v1.Runtime', 'svc.v1.Inference', 'grpc.health.v1.Health'];

export function addReflection(server: Pick<Server, 'addService'>, definitions: Definitions): void {
  const files = new Set(SERVICES.flatMap((name) => filesOf(definitions, name)).map((file) => file.toString('base64')));
  const fileDescriptorProtos = mend([...files].map((file) => Buffer.from(file, 'base64')));
  const all = { svc: { format: '', type: {}, fileDescriptorProtos } } as unknown as Definitions['all'];
  new ReflectionService(all, { services: SERVICES }).addToServer({
    addService: (service: Parameters<Server['addService']>[0], handlers: UntypedServiceImplementation) =>
      server.addService(service, { ServerReflectionInfo: atReadersPace(handlers['ServerReflectionInfo'] as Bidi) }),
  });
}

function filesOf(definitions: Definitions, service: string): readonly Buffer[] {
  return Object.values(definitions.service(service)).flatMap(({ requestType }) => requestType.fileDescriptorProtos);
}

interface FieldDescriptor {
  readonly name: string;
  typeName?: string;
  oneofIndex?: number;
  proto3Optional?: boolean;
}

interface MessageDescriptor {
  name: string;
  readonly field?: readonly FieldDescriptor[];
  readonly nestedType?: readonly MessageDescriptor[];
  readonly oneofDecl?: readonly { readonly name: string }[];
  readonly options?: { readonly mapEntry?: boolean };
}

interface FileDescriptor {
  readonly package: string;
  readonly messageType?: readonly MessageDescriptor[];
}

/**
 * Corrects descriptors from protobufjs: it names map entries unlike protoc and does not mark optional fields. Without
 * this, clients in C++, Python and Go reject the whole file, or show a oneof.
 */
function mend(files: readonly Buffer[]): Buffer[] {
  const { serialize, deserialize } = loadSync('google/protobuf/descriptor.proto')[
    'google.protobuf.FileDescriptorProto'
  ] as MessageTypeDefinition<object, object>;
  const packages = SERVICES.map((name) => name.slice(0, name.lastIndexOf('.')));
  return files.flatMap((bytes) => {
    const file = deserialize(bytes) as FileDescriptor;
    if (!packages.includes(file.package)) return [];
    file.messageType?.forEach(mendMessage);
    return [serialize(file)];
  });
}

function mendMessage({ field = [], nestedType = [], oneofDecl = [] }: MessageDescriptor): void {
  nestedType.forEach(mendMessage);
  for (const each of field) {
    const entry = nestedType.find(({ name, options }) => options?.mapEntry === true && name === each.typeName);
    if (entry !== undefined) {
      const words = each.name.split('_').map((word) => word.charAt(0).toUpperCase() + word.slice(1));
      entry.name = each.typeName = `${words.join('')}Entry`;
    }
    if (each.oneofIndex !== undefined && oneofDecl[each.oneofIndex]?.name === `_${each.name}`) {
      each.proto3Optional = true;
    }
  }
}

type Bidi = (call: ServerDuplexStream<unknown, unknown>) => void;

/** Adds back-pressure, which the package lacks: requests are not read while the client does not read answers. */
function atReadersPace(handle: Bidi): Bidi {
  return (call) => {
    const write = call.write.bind(call) as (message: unknown) => boolean;
    call.write = (message: unknown): boolean => {
      const goOn = write(message);
      if (!goOn) {
        call.pause();
        call.once('drain', () => call.resume());
      }
      return goOn;
    };
    handle(call);
  };
}
