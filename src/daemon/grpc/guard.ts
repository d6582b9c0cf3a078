/**
 * What every call passes first: it gets an id, must name a host of ours, needs a key where HTTP needs
 * one, and its request must be complete in time; only so many may be arriving at once, since what has
 * arrived of each is held.
 */
import { randomBytes } from 'node:crypto';
import { ServerInterceptingCall, status, type Metadata, type ServerInterceptor } from '@grpc/grpc-js';
import type { Definitions } from '../../grpc/definitions.ts';
import type { Caller } from '../../protocol/caller.ts';
import { SvcError } from '../../protocol/errors.ts';
import { isOurHost } from '../http/access.ts';
import { authorize, type RouteScope } from '../http/authorize.ts';
import { keyField, logFailure } from '../request-log.ts';
import type { Services } from '../services.ts';
import { callers, errorStatus, ID_KEY } from './calls.ts';
import type { GrpcLimits } from './listener.ts';

/** A timer may be so much early by the clock. */
const TIMER_MS = 5;

export function guard(definitions: Definitions, services: Services, limits: GrpcLimits): ServerInterceptor {
  let arriving = 0;
  return (method, call) => {
    const id = randomBytes(16).toString('hex');
    const startedAt = performance.now();
    let timer: NodeJS.Timeout | null = null;
    let ended = false;
    let caller: Caller | null = null;

    const arrived = (): void => {
      if (timer === null) return;
      clearTimeout(timer);
      timer = null;
      arriving -= 1;
    };
    const end = (code: status): void => {
      arrived();
      if (ended) return;
      ended = true;
      const ms = performance.now() - startedAt;
      services.metrics.callEnded(method.path.slice(1), status[code]);
      services.log.debug({ id, method: method.path, ...keyField(caller), code, ms }, 'call');
    };
    const refuse = (error: SvcError): void => {
      logFailure(services.log, error, { id, method: method.path, ...keyField(caller) }, 'call failed');
      const refusal = errorStatus(definitions, error, id);
      end(refusal.code);
      call.sendStatus(refusal);
    };

    return new ServerInterceptingCall(call, {
      start: (next) => {
        next({
          onReceiveMetadata: (metadata, nextMetadata) => {
            const { localAddress, remoteAddress } = call.getConnectionInfo();
            if (!isOurHost(call.getHost(), localAddress, services.allowedHosts)) return refuse(foreignHost());
            const arrival = { headers: headersOf(metadata), socket: { localAddress, remoteAddress } };
            authorize(arrival, scopeOf(method.path), services.access).then(
              (found) => {
                caller = found;
                if (ended) return;
                if (arriving >= limits.arriving) return refuse(new SvcError('BUSY', 'too many requests are arriving'));
                arriving += 1;
                timer = setTimeout(() => {
                  refuse(new SvcError('TIMEOUT', 'the request took too long to arrive'));
                }, limits.requestMs);
                metadata.set(ID_KEY, id);
                if (found !== null) callers.set(metadata, found);
                nextMetadata(metadata);
              },
              (thrown: unknown) => refuse(SvcError.from(thrown)),
            );
          },
          // A stream of requests is complete when the client says so.
          onReceiveMessage: (message, nextMessage) => {
            if (!method.requestStream) arrived();
            nextMessage(message);
          },
          onReceiveHalfClose: (nextHalfClose) => {
            arrived();
            nextHalfClose();
          },
          // The client has gone, or gRPC has ended the call itself, as it does at the deadline.
          onCancel: () => {
            const isLate = Date.now() + TIMER_MS >= Number(call.getDeadline());
            end(isLate ? status.DEADLINE_EXCEEDED : status.CANCELLED);
          },
        });
      },
      sendMetadata: (metadata, next) => {
        metadata.set(ID_KEY, id);
        next(metadata);
      },
      sendStatus: (sent, next) => {
        end(sent.code);
        next(sent);
      },
    });
  };
}

/** As the routes of HTTP that answer the same. */
function scopeOf(path: string): RouteScope {
  if (path.startsWith('/grpc.health.v1.Health/')) return 'probe';
  return path === '/svc.v1.Runtime/ListProviders' ? 'admin' : 'local';
}

/** Those that may carry a key. */
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
