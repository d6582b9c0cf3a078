/** The gRPC services (svc.v1, health, reflection) on connections from the listener. */
import { setMaxListeners } from 'node:events';
import type { Http2Server } from 'node:http2';
import type { Socket } from 'node:net';
import { logVerbosity, Server, ServerCredentials, setLogVerbosity, type ConnectionInjector } from '@grpc/grpc-js';
import type { ServiceDefinition } from '@grpc/proto-loader';
import { protoPath as healthProtoPath } from 'grpc-health-check';
import { Definitions } from '../../grpc/definitions.ts';
import { SvcError } from '../../protocol/errors.ts';
import { Containment } from '../contain.ts';
import type { Services } from '../services.ts';
import { Calls } from './calls.ts';
import { inferenceService } from './embed-response.ts';
import { guard } from './guard.ts';
import { HealthService } from './health.ts';
import { inference } from './inference.ts';
import type { GrpcLimits } from './limits.ts';
import { addReflection } from './reflection.ts';
import { Requests } from './requests.ts';
import { runtime } from './runtime.ts';
import { Streams } from './streams.ts';

/** Memory limit of one HTTP/2 connection, without messages, in Node's unit MB. */
const SESSION_MB = 16;

export class GrpcServer {
  readonly #injector: ConnectionInjector;
  readonly #health: HealthService;
  readonly #streams: Streams;
  readonly #closing = new AbortController();

  constructor(services: Services, limits: GrpcLimits) {
    // Each watch adds a listener, and there may be many.
    setMaxListeners(0, this.#closing.signal);
    const definitions = new Definitions([healthProtoPath]);
    const requests = new Requests(definitions);
    this.#streams = new Streams(new Containment(services.log), limits);
    // The library would log data from clients to standard error.
    setLogVerbosity(logVerbosity.NONE);
    const server = new Server({
      'grpc.max_receive_message_length': limits.messageBytes,
      'grpc.max_concurrent_streams': limits.streams,
      'grpc.max_connection_idle_ms': limits.idleMs,
      // A connection whose client reads nothing answers no ping either.
      'grpc.keepalive_time_ms': limits.pingEveryMs,
      'grpc.keepalive_timeout_ms': limits.pingMs,
      'grpc-node.max_session_memory': SESSION_MB,
      'grpc.enable_channelz': 0,
      interceptors: [guard({ definitions, services, limits, requests, streams: this.#streams })],
    });
    const calls = new Calls({ definitions, services, stallMs: limits.stallMs, closing: this.#closing.signal });
    const runtimeService = definitions.service('svc.v1.Runtime');
    server.addService(requests.undecoded(runtimeService), runtime(calls, services));
    server.addService(requests.undecoded(inferenceService(definitions)), inference(calls, services, definitions));
    this.#health = new HealthService(services, calls);
    const undecoded: Pick<Server, 'addService'> = {
      addService: (service, handlers) => server.addService(requests.undecoded(service as ServiceDefinition), handlers),
    };
    this.#health.addTo(undecoded);
    addReflection(undecoded, definitions);
    this.#injector = server.createConnectionInjector(ServerCredentials.createInsecure());
    this.#streams.watch(http2ServerOf(server));
  }

  inject(socket: Socket): void {
    this.#injector.injectConnection(socket);
  }

  /** Refuses new calls and ends every stream with NOT_READY. The caller destroys the connections after `graceMs`. */
  close(graceMs: number): void {
    this.#closing.abort(
      new SvcError('NOT_READY', 'svc is stopping', { hint: 'start it again: svc start', retryAfterSeconds: 1 }),
    );
    this.#health.close();
    this.#streams.close();
    this.#injector.drain(graceMs);
  }
}

/** Returns the library's private HTTP/2 server: errors thrown in its listeners can be caught only there. */
function http2ServerOf(server: Server): Http2Server {
  const { http2Servers } = server as unknown as { http2Servers: Map<Http2Server, unknown> };
  const [http2Server] = http2Servers.keys();
  if (http2Server === undefined) throw new Error('the gRPC library has no HTTP/2 server');
  return http2Server;
}
