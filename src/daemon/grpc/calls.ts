/**
 * Common parts of every gRPC call: an id, a signal that is aborted when the client goes away, and the conversion of
 * errors to a status and a log line.
 */
import {
  Metadata,
  type sendUnaryData,
  type ServerUnaryCall,
  type ServerWritableStream,
  type status,
} from '@grpc/grpc-js';
import type { Definitions } from '../../grpc/definitions.ts';
import { DETAILS_KEY, encodeDetails } from '../../grpc/status.ts';
import type { Caller } from '../../protocol/caller.ts';
import { SvcError } from '../../protocol/errors.ts';
import type { Span } from '../../protocol/traces/span.ts';
import { drained } from '../http/drained.ts';
import { keyField } from '../request-log.ts';
import type { Services } from '../services.ts';

/** Metadata key of the id: from the guard to the handler, and in the answer to the client. */
export const ID_KEY = 'x-request-id';

/** The caller of each call, by the metadata that the handler gets; set by the guard. */
export const callers = new WeakMap<Metadata, Caller>();
/** The span of each call, as above. */
export const spans = new WeakMap<Metadata, Span>();

type Message = Readonly<Record<string, unknown>>;

export interface Call {
  readonly id: string;
  readonly span: Span;
  readonly caller: Caller;
  /** `performance.now()` when the request was complete. */
  readonly arrivedAt: number;
  readonly request: Message;
  /** Time until the client's deadline. null: it set none. */
  readonly timeoutMs: number | null;
  /** Aborted with CANCELLED or TIMEOUT when the call is over. */
  readonly signal: AbortSignal;
}

export interface StreamCall extends Call {
  /** Resolves when more may be written. Rejects when the client goes away or stops reading. */
  write(message: object): Promise<void>;
}

export interface CallsOptions {
  readonly definitions: Definitions;
  readonly services: Services;
  readonly stallMs: number;
  /** Aborted when the listener closes, with the error that ends its streams. */
  readonly closing: AbortSignal;
}

export type UnaryHandler = (call: ServerUnaryCall<Message, object>, callback: sendUnaryData<object>) => void;
export type StreamHandler = (call: ServerWritableStream<Message, object>) => void;

export class Calls {
  readonly #options: CallsOptions;

  constructor(options: CallsOptions) {
    this.#options = options;
  }

  /** Aborted when the listener closes. */
  get closing(): AbortSignal {
    return this.#options.closing;
  }

  unary(answer: (call: Call) => object | Promise<object>): UnaryHandler {
    return (call, callback) => {
      Promise.resolve(callOf(call))
        .then(answer)
        .then(
          (message) => callback(null, message),
          (thrown: unknown) => callback(this.fail(thrown, call)),
        );
    };
  }

  /** Makes a handler; the stream ends with OK when `answer` resolves. */
  stream(answer: (call: StreamCall) => Promise<void>): StreamHandler {
    return (call) => {
      const common = callOf(call);
      const { signal } = common;
      answer({
        ...common,
        write: async (message) => {
          signal.throwIfAborted();
          if (!call.write(message)) await drained(call, signal, this.#options.stallMs);
        },
      }).then(
        () => call.end(),
        (thrown: unknown) => call.emit('error', this.fail(thrown, call)),
      );
    };
  }

  /** Wraps a stream handler of another package, so that its streams end when the listener closes. */
  adopt(handle: StreamHandler): StreamHandler {
    return (call) => {
      const { closing } = this.#options;
      const onClosing = (): void => void call.emit('error', this.fail(closing.reason, call));
      closing.addEventListener('abort', onClosing, { once: true });
      call.once('cancelled', () => closing.removeEventListener('abort', onClosing));
      handle(call);
    };
  }

  /** Logs the failure of a call, and returns its status. */
  fail(thrown: unknown, call: { readonly metadata: Metadata; getPath(): string }): ErrorStatus {
    const { definitions, services } = this.#options;
    const error = SvcError.from(thrown);
    const id = idOf(call);
    const caller = callers.get(call.metadata);
    const span = spans.get(call.metadata);
    span?.set({ 'error.type': error.code });
    const facts = { id, trace_id: span?.traceId, method: call.getPath(), ...keyField(caller) };
    services.failures.write(error, { caller }, facts, 'call failed');
    return errorStatus(definitions, error, id);
  }
}

export interface ErrorStatus {
  readonly code: status;
  readonly details: string;
  readonly metadata: Metadata;
}

export function errorStatus(definitions: Definitions, error: SvcError, id: string): ErrorStatus {
  const metadata = new Metadata();
  metadata.set(ID_KEY, id);
  metadata.set(DETAILS_KEY, encodeDetails(definitions, error, id));
  // The table's numbers are google.rpc.Code's, as the library's enum is.
  // eslint-disable-next-line @typescript-eslint/no-unsafe-enum-assignment
  return { code: error.facts.grpc, details: error.told.toWellFormed(), metadata };
}

function callOf(call: ServerUnaryCall<Message, object> | ServerWritableStream<Message, object>): Call {
  const [caller, span] = [callers.get(call.metadata), spans.get(call.metadata)];
  if (caller === undefined || span === undefined) throw new SvcError('UNAUTHORIZED', 'an API key is needed');
  const deadline = Number(call.getDeadline());
  const client = new AbortController();
  const onCancel = (): void => {
    client.abort(
      Date.now() >= deadline
        ? new SvcError('TIMEOUT', 'the deadline of the call has passed')
        : new SvcError('CANCELLED', 'the client went away'),
    );
  };
  call.once('cancelled', onCancel);
  if (call.cancelled) onCancel();
  return {
    id: idOf(call),
    span,
    caller,
    arrivedAt: performance.now(),
    request: call.request,
    timeoutMs: Number.isFinite(deadline) ? Math.max(1, deadline - Date.now()) : null,
    signal: client.signal,
  };
}

function idOf({ metadata }: { readonly metadata: Metadata }): string {
  return String(metadata.get(ID_KEY)[0] ?? '');
}
