/**
 * grpc.health.v1.Health, of the package; this file says what the statuses are. The whole server and
 * Inference serve when the daemon is ready, Runtime for as long as the daemon is not stopping.
 */
import type { Server } from '@grpc/grpc-js';
import { HealthImplementation } from 'grpc-health-check';
import type { Services } from '../services.ts';
import type { Calls, StreamHandler } from './calls.ts';

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
          watch: this.#calls.adopt(newestOnly(handlers['watch'] as StreamHandler)),
        }),
    });
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

  /** The package tells its watchers whatever it is told. */
  #set(service: string, status: Status): void {
    if (this.#known.get(service) === status) return;
    this.#known.set(service, status);
    this.#implementation.setStatus(service, status);
  }
}

/** The package writes whether or not somebody reads; of what waits for a slow reader only the newest matters. */
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
