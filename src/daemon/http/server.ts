/**
 * The HTTP listeners: TCP for everybody, and the control socket, which serves the same routes and
 * the daemon's own commands.
 *
 * A request gets an id, passes the access checks (TCP only), finds its route, and is handed to the
 * route's handler. Whatever a handler throws becomes the answer and one log line, both with the id.
 * A client that goes away aborts the exchange's signal, which ends the work behind it.
 */
import { randomBytes } from 'node:crypto';
import { createServer, STATUS_CODES, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { Duplex } from 'node:stream';
import { CONTROL_CALLER, type Caller } from '../../protocol/caller.ts';
import { SvcError } from '../../protocol/errors.ts';
import { keyField, logFailure } from '../request-log.ts';
import { Containment } from '../contain.ts';
import type { Services } from '../services.ts';
import { checkContentType, checkExpectation, checkOrigin } from './access.ts';
import { authorize } from './authorize.ts';
import { BodyBudget, BodyShare } from './body-budget.ts';
import type { Exchange } from './exchange.ts';
import { Reply, type ReplyLimits } from './reply.ts';
import { CONTROL, familyOf, findRoute, PUBLIC, type Route } from './routes.ts';

export interface ListenerLimits extends ReplyLimits {
  /** From the connection, or the end of the request before it, until the headers are complete. */
  readonly headersMs: number;
  /** As above, until the body is complete too. */
  readonly requestMs: number;
  /** An idle connection stays for so long: longer than the load balancers before us keep theirs. */
  readonly keepAliveMs: number;
  /** How often the three are looked at. */
  readonly checkMs: number;
  readonly headerBytes: number;
  readonly connections: number;
  /** Requests on one connection that wait for their answers: nearly every client sends one at a time. */
  readonly pipelined: number;
  /** Of all request bodies that are held at once. */
  readonly bodiesBytes: number;
}

export const LIMITS: ListenerLimits = {
  headersMs: 10_000,
  requestMs: 120_000,
  keepAliveMs: 75_000,
  checkMs: 2000,
  headerBytes: 16 * 1024,
  connections: 8192,
  pipelined: 16,
  bodiesBytes: 256 * 1024 * 1024,
  heartbeatMs: 10_000,
  stallMs: 120_000,
};

/** On the control socket: a person who reads in a pager takes their time. */
const CONTROL_STALL_MS = 86_400_000;

export interface ListenerOptions {
  readonly services: Services;
  /** The control socket: serves `/control/*` too, and trusts whoever may open it. */
  readonly control: boolean;
  readonly limits?: Partial<ListenerLimits>;
}

/** The caller listens and closes. While the router drains, and after `close`, connections end with their answers. */
export function createListener({ services, control, limits: changed = {} }: ListenerOptions): Server {
  const limits: ListenerLimits = { ...LIMITS, ...(control ? { stallMs: CONTROL_STALL_MS } : {}), ...changed };
  const routes = control ? [...PUBLIC, ...CONTROL] : PUBLIC;
  const bodies = new BodyBudget(limits.bodiesBytes);

  const server = createServer({
    headersTimeout: limits.headersMs,
    requestTimeout: limits.requestMs,
    keepAliveTimeout: limits.keepAliveMs,
    connectionsCheckingInterval: limits.checkMs,
    maxHeaderSize: limits.headerBytes,
    noDelay: true,
    // Our own check answers with an id and in the right shape.
    requireHostHeader: false,
  });
  server.maxConnections = limits.connections;
  const containment = new Containment(services.log);
  containment.serve(server);

  /** The answers that each connection is still owed. */
  const answering = new WeakMap<Duplex, Set<ServerResponse>>();

  const onRequest = (req: IncomingMessage, res: ServerResponse): void => {
    const { socket } = req;
    const owed = answering.get(socket) ?? new Set();
    // Node would read on and on, and hold a request and its answer for every line of it.
    if (owed.size >= limits.pipelined) return void socket.destroy();
    if (!answering.has(socket)) {
      answering.set(socket, owed);
      socket.once('close', () => endAll(owed));
    }
    owed.add(res);
    const arrivedAt = performance.now();
    const id = newId();
    const { path, query } = splitTarget(req.url ?? '');
    // The route, not the path: what a client puts into a URL may be anybody's secret.
    const route = findRoute(routes, path)?.route.path ?? null;
    let caller: Caller | null = null;
    const client = new AbortController();
    const reply = new Reply(id, familyOf(path), res, limits, client.signal);
    reply.setHeader('x-request-id', id);
    if (services.router.draining) reply.setHeader('connection', 'close');
    res.once('close', () => {
      owed.delete(res);
      if (!res.writableFinished) client.abort(new SvcError('CANCELLED', 'the client went away'));
      // An idle connection would keep a closing server open.
      if (!server.listening) server.closeIdleConnections();
      services.metrics.requestEnded(findRoute(routes, path)?.route.path ?? null, res.statusCode);
      services.log.debug(
        {
          id,
          method: req.method,
          route,
          ...keyField(caller),
          status: res.statusCode,
          ms: performance.now() - arrivedAt,
        },
        'request',
      );
    });

    const body = new BodyShare(bodies);
    const request = { id, req, reply, services, body, arrivedAt, query, signal: client.signal };
    const onCaller = (found: Caller | null): void => {
      caller = found;
    };
    answer(request, path, routes, control, onCaller)
      .catch((thrown: unknown) => {
        const error = SvcError.from(thrown);
        logFailure(services.log, error, { id, method: req.method, route, ...keyField(caller) }, 'request failed');
        reply.fail(error);
      })
      .catch((error: unknown) => containment.end(socket, error))
      .finally(() => body.giveBack());
  };

  server.once('listening', () => {
    server.on('error', (err) => services.log.error({ err }, 'a connection could not be accepted'));
  });
  server.on('request', onRequest);
  // The body is asked for when a handler wants it, not before it is known that one does.
  server.on('checkContinue', onRequest);
  // Refused with an id and in the right shape.
  server.on('checkExpectation', onRequest);
  server.on('clientError', (error: NodeJS.ErrnoException, socket) => {
    const isAnswering = [...(answering.get(socket) ?? [])].some((res) => res.headersSent && !res.writableFinished);
    // Into the middle of an answer nothing else can be written.
    if (isAnswering) socket.destroy();
    else refuseConnection(error, socket, services);
  });

  return server;
}

async function answer(
  request: Omit<Exchange, 'param' | 'caller'>,
  path: string,
  routes: readonly Route[],
  control: boolean,
  onCaller: (caller: Caller | null) => void,
): Promise<void> {
  const { req, reply, services } = request;
  checkExpectation(req);
  if (!control) checkOrigin(req, services.allowedHosts);
  const match = findRoute(routes, path);
  const scope = match?.route.scope ?? 'local';
  const caller = control ? CONTROL_CALLER : await authorize(req, scope, services.access);
  onCaller(caller);
  if (match === undefined) throw new SvcError('NOT_FOUND', 'there is nothing at this path');
  const { route, param } = match;
  if (route.method !== (req.method === 'HEAD' ? 'GET' : req.method)) {
    const allow = route.method === 'GET' ? 'GET, HEAD' : route.method;
    reply.setHeader('allow', allow);
    throw new SvcError('METHOD_NOT_ALLOWED', `this path answers ${allow} only`);
  }
  if (!control && route.method === 'POST') checkContentType(req);
  await route.handler({ ...request, param, caller });
}

function newId(): string {
  return randomBytes(16).toString('hex');
}

function splitTarget(target: string): { path: string; query: URLSearchParams } {
  const mark = target.indexOf('?');
  if (mark === -1) return { path: target, query: new URLSearchParams() };
  return { path: target.slice(0, mark), query: new URLSearchParams(target.slice(mark + 1)) };
}

/** The connection is gone. Node tells only the answer whose turn it was; the work behind the others has to end too. */
function endAll(answers: ReadonlySet<ServerResponse>): void {
  for (const res of [...answers]) {
    res.destroy();
    res.emit('close');
  }
}

/** What came is not HTTP, is too large, or took too long; there is no request to answer. */
function refuseConnection(error: NodeJS.ErrnoException, socket: Duplex, services: Services): void {
  if (error.code === 'ECONNRESET' || !socket.writable) return void socket.destroy();
  const id = newId();
  const [status, code, message] = describeClientError(error.code);
  services.log.debug({ id, status, code: error.code }, 'connection refused');
  services.metrics.requestEnded(null, status);
  const body = `${JSON.stringify({ id, error: { code, message } })}\n`;
  const head = [
    `HTTP/1.1 ${String(status)} ${STATUS_CODES[status] ?? ''}`,
    'content-type: application/json; charset=utf-8',
    `content-length: ${String(Buffer.byteLength(body))}`,
    `x-request-id: ${id}`,
    'connection: close',
  ];
  socket.end(`${head.join('\r\n')}\r\n\r\n${body}`, () => socket.destroy());
}

function describeClientError(code: string | undefined): readonly [status: number, code: string, message: string] {
  if (code === 'HPE_HEADER_OVERFLOW') return [431, 'REQUEST_TOO_LARGE', 'the headers are too large'];
  if (code === 'ERR_HTTP_REQUEST_TIMEOUT') return [408, 'TIMEOUT', 'the request took too long to arrive'];
  return [400, 'INVALID_REQUEST', 'this is not an HTTP request'];
}
