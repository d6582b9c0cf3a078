/**
 * grpc.health.v1.Health, implemented by grpc-health-check; this file sets the statuses. The whole server and Inference
 * are SERVING while the daemon is ready, Runtime while the daemon is not stopping.
 */
import type { Server } from '@grpc/grpc-js';
import { HealthImplementation } from 'grpc-health-check';
import { SvcError } from '../../protocol/errors.ts';
import type { Services } from '../services.ts';
import type { Calls, StreamHandler, UnaryHandler } from './calls.ts';

type Status = 'SERVING' | 'NOT_SERVING';

export class HealthService {
  readonly #services: Services;
  readonly #calls: Calls;
  readonly #implementation = new HealthImplementation();
  readonly #known = new Map<string, Status>();
  readonly #unsubscribe: () => void;

  constructor(services: Services, calls: Calls) {
    this.#services = services;
    this.#calls = calls;
    this.#update();
    this.#unsubscribe = services.healthFeed.subscribe(() => this.#update());
  }

  addTo(server: Pick<Server, 'addService'>): void {
    this.#implementation.addToServer({
      addService: (service, handlers) =>
        server.addService(service, {
          ...handlers,
          check: this.#checkOfKnown(handlers['check'] as UnaryHandler),
          watch: this.#calls.adopt(this.#watchOfKnown(newestOnly(handlers['watch'] as StreamHandler))),
        }),
    });
  }

  /** Answers for unknown services, because the error of the package has no details and repeats the name. */
  #checkOfKnown(handle: UnaryHandler): UnaryHandler {
    return (call, callback) => {
      if (this.#isKnown(call)) handle(call, callback);
      else callback(this.#calls.fail(unknownService(), call));
    };
  }

  /** Answers for unknown services, because the package keeps every name that was ever watched. */
  #watchOfKnown(handle: StreamHandler): StreamHandler {
    return (call) => {
      if (this.#isKnown(call)) handle(call);
      else call.write({ status: 'SERVICE_UNKNOWN' });
    };
  }

  #isKnown({ request }: { readonly request: Readonly<Record<string, unknown>> }): boolean {
    return this.#known.has(request['service'] as string);
  }

  close(): void {
    this.#unsubscribe();
  }

  #update(): void {
    const { status, state } = this.#services.ready();
    const ready: Status = status === 'ready' ? 'SERVING' : 'NOT_SERVING';
    this.#set('', ready);
    this.#set('svc.v1.Runtime', state === 'STOPPING' ? 'NOT_SERVING' : 'SERVING');
    this.#set('svc.v1.Inference', ready);
  }

  /** Sets a status if it has changed: the package notifies its watchers of every call. */
  #set(service: string, status: Status): void {
    if (this.#known.get(service) === status) return;
    this.#known.set(service, status);
    this.#implementation.setStatus(service, status);
  }
}

function unknownService(): SvcError {
  return new SvcError('NOT_FOUND', 'no service has this name', {
    hint: 'ask for svc.v1.Inference or svc.v1.Runtime, or leave the name empty',
    param: 'service',
  });
}

/** Adds back-pressure, which the package lacks: only the newest status waits for a slow reader. */
function newestOnly(handle: StreamHandler): StreamHandler {
  return (call) => {
    const write = call.write.bind(call) as (message: unknown) => boolean;
    let waiting: unknown;
    call.on('drain', () => {
      if (waiting !== undefined) write(waiting);
      waiting = undefined;
    });
    call.write = (message: unknown): boolean => {
      if (call.writableNeedDrain) waiting = message;
      else return write(message);
      return false;
    };
    handle(call);
  };
}
