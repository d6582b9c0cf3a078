/** The gRPC listener over scripted services, and a client that speaks svc.v1. */
import { once } from 'node:events';
import type { AddressInfo } from 'node:net';
import { Client, credentials, Metadata, type ClientReadableStream, type ServiceError } from '@grpc/grpc-js';
import { GrpcListener } from '../../src/daemon/grpc/listener.ts';
import type { GrpcLimits } from '../../src/daemon/grpc/limits.ts';
import { Definitions } from '../../src/grpc/definitions.ts';
import { given } from '../../src/protocol/given.ts';
import { scriptedServices, type ScriptedOptions, type ScriptedServices } from '../http/scripted.ts';

export const definitions = new Definitions();

export interface Failure {
  readonly status: number;
  readonly message: string;
  /** Reason from google.rpc.ErrorInfo; undefined if there is none. */
  readonly reason: string | undefined;
  readonly metadata: Readonly<Record<string, string>>;
  readonly retrySeconds: number | undefined;
}

export interface TestClient {
  readonly client: Client;
  unary(method: string, request?: object, options?: { deadline?: number; signal?: AbortSignal }): Promise<any>;
  stream(method: string, request?: object, options?: { deadline?: number }): ClientReadableStream<any>;
  close(): void;
}

/** Connects a client, which sends `key`. `service` is a full name such as `svc.v1.Runtime`; `method` is `Service/Name`. */
export function connectTo(address: string, authority?: string, key?: string): TestClient {
  const client = new Client(address, credentials.createInsecure(), {
    'grpc.enable_http_proxy': 0,
    // A separate connection for each client.
    'grpc.use_local_subchannel_pool': 1,
    ...given({ 'grpc.default_authority': authority }),
  });
  const metadata = (): Metadata => {
    const sent = new Metadata();
    if (key !== undefined) sent.set('authorization', `Bearer ${key}`);
    return sent;
  };
  const find = (method: string) => {
    const [service = '', name = ''] = method.split('/');
    return definitions.service(`svc.v1.${service}`)[name]!;
  };
  return {
    client,
    unary: (method, request = {}, { signal, ...options } = {}) => {
      const { path, requestSerialize, responseDeserialize } = find(method);
      return new Promise((resolve, reject) => {
        const call = client.makeUnaryRequest(
          path,
          requestSerialize,
          responseDeserialize,
          request,
          metadata(),
          options,
          (error, message) => {
            if (error === null) resolve(message);
            else reject(error);
          },
        );
        signal?.addEventListener('abort', () => call.cancel());
      });
    },
    stream: (method, request = {}, options = {}) => {
      const { path, requestSerialize, responseDeserialize } = find(method);
      return client.makeServerStreamRequest(path, requestSerialize, responseDeserialize, request, metadata(), options);
    },
    close: () => client.close(),
  };
}

/** Returns the failure of a call. */
export async function failureOf(work: Promise<unknown> | ClientReadableStream<unknown>): Promise<Failure> {
  try {
    if (work instanceof Promise) await work;
    else for await (const _ of work);
  } catch (error) {
    return readFailure(error as ServiceError);
  }
  throw new Error('it did not fail');
}

export function readFailure({ code, details, metadata }: ServiceError): Failure {
  const [bytes] = metadata.get('grpc-status-details-bin');
  const found = new Map<string, any>();
  if (Buffer.isBuffer(bytes)) {
    const { details: all } = definitions.decode('google.rpc.Status', bytes) as any;
    for (const { type_url, value } of all) {
      const name = String(type_url).split('/')[1]!;
      found.set(name, definitions.decode(name, value));
    }
  }
  const info = found.get('google.rpc.ErrorInfo');
  return {
    status: code,
    message: details,
    reason: info?.reason,
    metadata: info?.metadata ?? {},
    retrySeconds: found.get('google.rpc.RetryInfo')?.retry_delay.seconds,
  };
}

export interface ScriptedGrpc extends ScriptedServices {
  readonly address: string;
  readonly port: number;
  readonly listener: GrpcListener;
  /** Returns a client with its own connection, which `stop` closes. */
  connect(authority?: string): TestClient;
  stop(): Promise<void>;
}

export async function startScriptedGrpc(
  options: ScriptedOptions & { readonly grpc?: Partial<GrpcLimits> } = {},
): Promise<ScriptedGrpc> {
  const scripted = scriptedServices(options);
  const listener = new GrpcListener(scripted.services, options.grpc);
  listener.server.listen(0, '127.0.0.1');
  await once(listener.server, 'listening');
  const { port } = listener.server.address() as AddressInfo;
  const address = `127.0.0.1:${String(port)}`;
  const clients: TestClient[] = [];
  return {
    ...scripted,
    address,
    port,
    listener,
    connect: (authority) => {
      const client = connectTo(address, authority);
      clients.push(client);
      return client;
    },
    stop: async () => {
      for (const client of clients) client.close();
      await listener.close();
    },
  };
}
