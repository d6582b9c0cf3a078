/**
 * The interceptor of every call. A call gets an id, must name one of our hosts, and needs a key where HTTP needs one.
 * Its request must be complete in time. The number of arriving requests is limited, and so is the memory of all
 * requests, from their arrival until the call is over.
 */
import { randomBytes } from 'node:crypto';
import {
  ServerInterceptingCall,
  status,
  type Metadata,
  type ServerInterceptingCallInterface,
  type ServerInterceptor,
} from '@grpc/grpc-js';
import type { Definitions } from '../../grpc/definitions.ts';
import { networkOf } from '../../net/ip-address.ts';
import { Shares } from '../../net/shares.ts';
import { shareOf, type Caller } from '../../protocol/caller.ts';
import { SvcError } from '../../protocol/errors.ts';
import type { Span } from '../../protocol/traces/span.ts';
import { invalid } from '../../protocol/validate.ts';
import { isOurHost } from '../http/access.ts';
import { authorize, type RouteScope } from '../http/authorize.ts';
import { BodyShare } from '../http/body-budget.ts';
import { keyField } from '../request-log.ts';
import type { Services } from '../services.ts';
import { beginSpan, endSpan } from './call-span.ts';
import { callers, errorStatus, ID_KEY, spans } from './calls.ts';
import type { GrpcLimits } from './limits.ts';
import type { Requests } from './requests.ts';
import type { Streams } from './streams.ts';

/** A timer may fire this much too early by the clock. */
const TIMER_MS = 5;

export interface GuardOptions {
  readonly definitions: Definitions;
  readonly services: Services;
  readonly limits: GrpcLimits;
  readonly requests: Requests;
  readonly streams: Streams;
}

type HandOn = (message: object) => void;

/** State that all calls share. */
interface Shared extends GuardOptions {
  /** Bytes of all requests, by API key, or by address where no key is needed. */
  readonly budget: Shares;
  /** Calls whose request is not complete yet, by API key, or by address where no key is needed. */
  readonly arriving: Shares;
}

export function guard(options: GuardOptions): ServerInterceptor {
  const { limits } = options;
  const shared: Shared = {
    ...options,
    budget: new Shares(limits.requestsBytes),
    arriving: new Shares(limits.arriving),
  };
  return (method, call) => new GuardedCall(shared, method, call).intercept();
}

class GuardedCall {
  readonly #shared: Shared;
  readonly #method: { readonly path: string; readonly requestStream: boolean };
  readonly #call: ServerInterceptingCallInterface;
  readonly #id = randomBytes(16).toString('hex');
  readonly #startedAt = performance.now();
  readonly #stream: Streams['current'];
  /** Until the call is admitted, none. */
  #share: BodyShare | null = null;
  /** While the request arrives. */
  #arrival: { readonly share: string; readonly timer: NodeJS.Timeout } | null = null;
  #ended = false;
  #caller: Caller | null = null;
  /** Until the metadata has arrived, none. */
  #span: Span | null = null;
  #request: { readonly bytes: Buffer; readonly handOn: HandOn } | null = null;

  constructor(
    shared: Shared,
    method: { readonly path: string; readonly requestStream: boolean },
    call: ServerInterceptingCallInterface,
  ) {
    this.#shared = shared;
    this.#method = method;
    this.#call = call;
    this.#stream = shared.streams.current;
  }

  intercept(): ServerInterceptingCall {
    return new ServerInterceptingCall(this.#call, {
      start: (next) => {
        next({
          onReceiveMetadata: (metadata, nextMetadata) => this.#authorize(metadata, nextMetadata),
          onReceiveMessage: (message, handOn: HandOn) => this.#run(() => this.#receive(message as Buffer, handOn)),
          onReceiveHalfClose: (nextHalfClose) => this.#run(() => this.#complete(nextHalfClose)),
          // The client has gone, or gRPC has ended the call itself, as it does at the deadline.
          onCancel: () => {
            const isLate = Date.now() + TIMER_MS >= Number(this.#call.getDeadline());
            this.#end(isLate ? status.DEADLINE_EXCEEDED : status.CANCELLED);
          },
        });
      },
      sendMetadata: (metadata, next) => {
        this.#run(() => {
          metadata.set(ID_KEY, this.#id);
          next(metadata);
        });
      },
      sendMessage: (message, next) => this.#run(() => next(message)),
      sendStatus: (sent, next) => {
        this.#run(() => {
          this.#end(sent.code);
          next(sent);
        });
      },
    });
  }

  #authorize(metadata: Metadata, next: (metadata: Metadata) => void): void {
    const { services } = this.#shared;
    const { localAddress, remoteAddress } = this.#call.getConnectionInfo();
    const span = beginSpan(services.tracer, metadata, this.#id, this.#method.path);
    spans.set(metadata, span);
    this.#span = span;
    if (!isOurHost(this.#call.getHost(), localAddress, services.allowedHosts))
      return this.#run(() => this.#refuse(foreignHost()));
    const arrival = { headers: headersOf(metadata), socket: { localAddress, remoteAddress } };
    authorize(arrival, scopeOf(this.#method.path), services.access).then(
      (found) => {
        this.#caller = found;
        if (found !== null) callers.set(metadata, found);
        this.#run(() => this.#admit(metadata, next));
      },
      (thrown: unknown) => this.#run(() => this.#refuse(SvcError.from(thrown))),
    );
  }

  #admit(metadata: Metadata, next: (metadata: Metadata) => void): void {
    const { limits } = this.#shared;
    if (this.#ended) return;
    const share = this.#arrivalShare();
    if (!this.#shared.arriving.take(share)) throw new SvcError('BUSY', 'too many requests are arriving');
    const timer = setTimeout(() => {
      this.#run(() => this.#refuse(new SvcError('TIMEOUT', 'the request took too long to arrive')));
    }, limits.requestMs);
    this.#arrival = { share, timer };
    this.#share = new BodyShare(this.#shared.budget, share);
    metadata.set(ID_KEY, this.#id);
    next(metadata);
  }

  #arrivalShare(): string {
    if (this.#caller !== null) return shareOf(this.#caller);
    const { remoteAddress } = this.#call.getConnectionInfo();
    return `address:${remoteAddress === undefined ? '' : networkOf(remoteAddress)}`;
  }

  #receive(bytes: Buffer, handOn: HandOn): void {
    if (this.#ended) return;
    if (this.#method.requestStream) return handOn(this.#decode(bytes));
    if (this.#request !== null) throw invalid(undefined, 'has more than one message');
    this.#request = { bytes, handOn };
    this.#count(bytes.length);
    this.#call.startRead();
  }

  #complete(next: () => void): void {
    if (this.#ended) return;
    this.#arrived();
    if (!this.#method.requestStream) {
      if (this.#request === null) throw invalid(undefined, 'has no message');
      this.#request.handOn(this.#decode(this.#request.bytes));
      this.#request = null;
    }
    next();
  }

  #decode(bytes: Buffer): object {
    const { requests } = this.#shared;
    this.#count(requests.weigh(this.#method.path, bytes));
    return requests.decode(this.#method.path, bytes);
  }

  #count(bytes: number): void {
    if (this.#share?.resize(bytes) === false) throw new SvcError('BUSY', 'too many large requests at once');
  }

  /** Runs `work`. A SvcError that it throws refuses the call; any other error ends the connection. */
  #run(work: () => void): void {
    this.#shared.streams.contain(this.#stream, () => {
      try {
        work();
      } catch (error) {
        if (!(error instanceof SvcError)) throw error;
        this.#refuse(error);
      }
    });
  }

  #refuse(error: SvcError): void {
    if (this.#ended) return;
    const { services, definitions } = this.#shared;
    const facts = { ...this.#facts(), ...keyField(this.#caller) };
    this.#span?.set({ 'error.type': error.code });
    const { remoteAddress } = this.#call.getConnectionInfo();
    services.failures.write(error, { caller: this.#caller, address: remoteAddress }, facts, 'call failed');
    const refusal = errorStatus(definitions, error, this.#id);
    this.#end(refusal.code);
    this.#call.sendStatus(refusal);
  }

  #end(code: status): void {
    this.#arrived();
    this.#request = null;
    if (this.#ended) return;
    this.#ended = true;
    this.#share?.giveBack();
    if (this.#span !== null) endSpan(this.#span, code);
    const { services } = this.#shared;
    const { path } = this.#method;
    const ms = performance.now() - this.#startedAt;
    services.metrics.callEnded(path.slice(1), status[code]);
    services.log.debug({ ...this.#facts(), ...keyField(this.#caller), code, ms }, 'call');
  }

  /** Fields of a call's log lines. */
  #facts(): object {
    return { id: this.#id, trace_id: this.#span?.traceId, method: this.#method.path };
  }

  /** The request is complete, or the call has ended: stops its timer. */
  #arrived(): void {
    if (this.#arrival === null) return;
    const { share, timer } = this.#arrival;
    clearTimeout(timer);
    this.#arrival = null;
    this.#shared.arriving.giveBack(share);
  }
}

/** Scope of a call, as of the HTTP route with the same answer. */
function scopeOf(path: string): RouteScope {
  if (path.startsWith('/grpc.health.v1.Health/')) return 'probe';
  return path === '/svc.v1.Runtime/ListProviders' ? 'admin' : 'local';
}

/** The headers that may carry a key. */
function headersOf(metadata: Metadata): Record<string, string> {
  return Object.fromEntries(
    ['authorization', 'x-api-key'].flatMap((name) => metadata.get(name).map((value) => [name, String(value)])),
  );
}

function foreignHost(): SvcError {
  return new SvcError('FORBIDDEN', 'the authority names neither an address of this server nor an allowed host', {
    hint: 'add the name to http.allowed_hosts in the configuration',
  });
}
