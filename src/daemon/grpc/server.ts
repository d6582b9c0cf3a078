/** The gRPC services over connections that the listener hands in: svc.v1, health, reflection. */
import type { Socket } from 'node:net';
import { Server, ServerCredentials, type ConnectionInjector } from '@grpc/grpc-js';
import { protoPath as healthProtoPath } from 'grpc-health-check';
import { Definitions } from '../../grpc/definitions.ts';
import { SvcError } from '../../protocol/errors.ts';
import type { Services } from '../services.ts';
import { Calls } from './calls.ts';
import { inferenceService } from './embed-response.ts';
import { guard } from './guard.ts';
import { HealthService } from './health.ts';
import { inference } from './inference.ts';
import type { GrpcLimits } from './listener.ts';
import { addReflection } from './reflection.ts';
import { runtime } from './runtime.ts';

/** Bytes that HTTP/2 may hold for one connection, besides the messages: in MB, as Node counts. */
const SESSION_MB = 16;

export class GrpcServer {
  readonly #injector: ConnectionInjector;
  readonly #health: HealthService;
  readonly #closing = new AbortController();

  constructor(services: Services, limits: GrpcLimits) {
    const definitions = new Definitions([healthProtoPath]);
    const server = new Server({
      'grpc.max_receive_message_length': limits.messageBytes,
      'grpc.max_concurrent_streams': limits.streams,
      'grpc.max_connection_idle_ms': limits.idleMs,
      'grpc-node.max_session_memory': SESSION_MB,
      'grpc.enable_channelz': 0,
      interceptors: [guard(definitions, services, limits)],
    });
    const calls = new Calls({ definitions, services, stallMs: limits.stallMs, closing: this.#closing.signal });
    server.addService(definitions.service('svc.v1.Runtime'), runtime(calls, services));
    server.addService(inferenceService(definitions), inference(calls, services, definitions, limits.requestsBytes));
    this.#health = new HealthService(services, calls);
    this.#health.addTo(server);
    addReflection(server, definitions);
    this.#injector = server.createConnectionInjector(ServerCredentials.createInsecure());
  }

  inject(socket: Socket): void {
    this.#injector.injectConnection(socket);
  }

  /** No new calls; every stream ends with NOT_READY. The caller destroys what is left after `graceMs`. */
  close(graceMs: number): void {
    this.#closing.abort(
      new SvcError('NOT_READY', 'svc is stopping', { hint: 'start it again: svc start', retryAfterSeconds: 1 }),
    );
    this.#health.close();
    this.#injector.drain(graceMs);
  }
}
