/**
 * The interceptor of every call. A call gets an id, must name one of our hosts, and needs a key where HTTP needs one.
 * Its request must be complete in time. The number of arriving requests is limited, and so is the memory of all
 * requests, from their arrival until the call is over.
 */
import { randomBytes } from 'node:crypto';
import { ServerInterceptingCall, status, type Metadata, type ServerInterceptor } from '@grpc/grpc-js';
import type { Definitions } from '../../grpc/definitions.ts';
import type { Caller } from '../../protocol/caller.ts';
import { SvcError } from '../../protocol/errors.ts';
import { invalid } from '../../protocol/validate.ts';
import { isOurHost } from '../http/access.ts';
import { authorize, type RouteScope } from '../http/authorize.ts';
import { BodyBudget, BodyShare } from '../http/body-budget.ts';
import { keyField, logFailure } from '../request-log.ts';
import type { Services } from '../services.ts';
import { callers, errorStatus, ID_KEY } from './calls.ts';
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

export function guard({ definitions, services, limits, requests, streams }: GuardOptions): ServerInterceptor {
  const budget = new BodyBudget(limits.requestsBytes);
  let arriving = 0;
  return (method, call) => {
    const id = randomBytes(16).toString('hex');
    const startedAt = performance.now();
    const stream = streams.current;
    const share = new BodyShare(budget);
    let timer: NodeJS.Timeout | null = null;
    let ended = false;
    let caller: Caller | null = null;
    let request: { readonly bytes: Buffer; readonly handOn: HandOn } | null = null;

    const arrived = (): void => {
      if (timer === null) return;
      clearTimeout(timer);
      timer = null;
      arriving -= 1;
    };
    const end = (code: status): void => {
      arrived();
      request = null;
      if (ended) return;
      ended = true;
      share.giveBack();
      const ms = performance.now() - startedAt;
      services.metrics.callEnded(method.path.slice(1), status[code]);
      services.log.debug({ id, method: method.path, ...keyField(caller), code, ms }, 'call');
    };
    const refuse = (error: SvcError): void => {
      if (ended) return;
      logFailure(services.log, error, { id, method: method.path, ...keyField(caller) }, 'call failed');
      const refusal = errorStatus(definitions, error, id);
      end(refusal.code);
      call.sendStatus(refusal);
    };
    const count = (bytes: number): void => {
      if (!share.resize(bytes)) throw new SvcError('BUSY', 'too many large requests at once');
    };
    const decode = (bytes: Buffer): object => {
      count(requests.weigh(method.path, bytes));
      return requests.decode(method.path, bytes);
    };
    /** Runs `work`. A SvcError that it throws refuses the call; any other error ends the connection. */
    const run = (work: () => void): void => {
      streams.contain(stream, () => {
        try {
          work();
        } catch (error) {
          if (!(error instanceof SvcError)) throw error;
          refuse(error);
        }
      });
    };
    const admit = (metadata: Metadata, next: (metadata: Metadata) => void): void => {
      if (ended) return;
      if (arriving >= limits.arriving) throw new SvcError('BUSY', 'too many requests are arriving');
      arriving += 1;
      timer = setTimeout(() => {
        run(() => refuse(new SvcError('TIMEOUT', 'the request took too long to arrive')));
      }, limits.requestMs);
      metadata.set(ID_KEY, id);
      next(metadata);
    };

    return new ServerInterceptingCall(call, {
      start: (next) => {
        next({
          onReceiveMetadata: (metadata, nextMetadata) => {
            const { localAddress, remoteAddress } = call.getConnectionInfo();
            if (!isOurHost(call.getHost(), localAddress, services.allowedHosts))
              return run(() => refuse(foreignHost()));
            const arrival = { headers: headersOf(metadata), socket: { localAddress, remoteAddress } };
            authorize(arrival, scopeOf(method.path), services.access).then(
              (found) => {
                caller = found;
                if (found !== null) callers.set(metadata, found);
                run(() => admit(metadata, nextMetadata));
              },
              (thrown: unknown) => run(() => refuse(SvcError.from(thrown))),
            );
          },
          onReceiveMessage: (message, handOn: HandOn) => {
            run(() => {
              if (ended) return;
              const bytes = message as Buffer;
              if (method.requestStream) return handOn(decode(bytes));
              if (request !== null) throw invalid(undefined, 'has more than one message');
              request = { bytes, handOn };
              count(bytes.length);
              call.startRead();
            });
          },
          onReceiveHalfClose: (nextHalfClose) => {
            run(() => {
              if (ended) return;
              arrived();
              if (!method.requestStream) {
                if (request === null) throw invalid(undefined, 'has no message');
                request.handOn(decode(request.bytes));
                request = null;
              }
              nextHalfClose();
            });
          },
          // The client has gone, or gRPC has ended the call itself, as it does at the deadline.
          onCancel: () => {
            const isLate = Date.now() + TIMER_MS >= Number(call.getDeadline());
            end(isLate ? status.DEADLINE_EXCEEDED : status.CANCELLED);
          },
        });
      },
      sendMetadata: (metadata, next) => {
        run(() => {
          metadata.set(ID_KEY, id);
          next(metadata);
        });
      },
      sendMessage: (message, next) => run(() => next(message)),
      sendStatus: (sent, next) => {
        run(() => {
          end(sent.code);
          next(sent);
        });
      },
    });
  };
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
