/**
 * The HTTP listeners: TCP for all clients, and the control socket, which serves the same routes and the daemon's own
 * commands.
 *
 * A request gets an id, passes the access checks (TCP only), and goes to the handler of its route. An error that a
 * handler throws becomes the answer and one log line, both with the id. When a client closes the connection, the
 * exchange's signal is aborted, which ends the work for it.
 */
import { randomBytes } from 'node:crypto';
import { createServer, STATUS_CODES, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import { CONTROL_CALLER, shareOf, type Caller } from '../../protocol/caller.ts';
import { SvcError } from '../../protocol/errors.ts';
import { given } from '../../protocol/given.ts';
import { DAY_MS } from '../../protocol/limits.ts';
import { keyField } from '../request-log.ts';
import { networkOf } from '../../net/ip-address.ts';
import { Shares } from '../../net/shares.ts';
import { shareConnections } from '../../net/connection-shares.ts';
import { Containment } from '../contain.ts';
import type { Services } from '../services.ts';
import { checkContentType, checkExpectation, checkOrigin } from './access.ts';
import { authorize } from './authorize.ts';
import { allowPage, answerPreflight, isPreflight } from './cors.ts';
import { BodyShare } from './body-budget.ts';
import type { Exchange } from './exchange.ts';
import { nearHint, routePath } from './paths.ts';
import { PendingAnswers } from './pending-answers.ts';
import { Reply, type UnreadBytes } from './reply.ts';
import { beginSpan, endSpan } from './request-span.ts';
import { answers, CONTROL, familyOf, findRoute, methodsOf, PUBLIC } from './routes.ts';

export const LIMITS = {
  /** Time from the connection, or the end of the previous request, until the headers are complete. */
  headersMs: 10_000,
  /** As `headersMs`, until the body is complete. */
  requestMs: 120_000,
  /** Time that an idle connection stays open: longer than in usual load balancers. */
  keepAliveMs: 75_000,
  /** Interval at which these three timeouts are checked. */
  checkMs: 2000,
  headerBytes: 16 * 1024,
  connections: 8192,
  /** Pipelined requests on one connection: nearly every client sends one at a time. */
  pipelined: 16,
  /** Bytes of all request bodies held at the same time. */
  bodiesBytes: 256 * 1024 * 1024,
  /** Bytes of all whole answers that have not been sent. */
  answersBytes: 256 * 1024 * 1024,
  heartbeatMs: 10_000,
  stallMs: 120_000,
};
export type ListenerLimits = Readonly<typeof LIMITS>;

/** On the control socket, whose client is the daemon's user, and may be a pager that a person reads. */
const CONTROL_LIMITS = { stallMs: DAY_MS, answersBytes: Infinity };

export interface ListenerOptions {
  readonly services: Services;
  /** True for the control socket: serves `/control/*` too, and trusts every client that can open it. */
  readonly control: boolean;
  readonly limits?: Partial<ListenerLimits>;
}

/**
 * Creates a server; the caller listens and closes. While the router drains, and after `close`, connections end with
 * their answers.
 */
export function createListener({ services, control, limits: changed = {} }: ListenerOptions): Server {
  const limits: ListenerLimits = { ...LIMITS, ...(control ? CONTROL_LIMITS : {}), ...changed };
  const routes = control ? [...PUBLIC, ...CONTROL] : PUBLIC;
  const bodies = new Shares(limits.bodiesBytes);
  const unreadAnswers = new Shares(limits.answersBytes);

  const server = createServer({
    headersTimeout: limits.headersMs,
    requestTimeout: limits.requestMs,
    keepAliveTimeout: limits.keepAliveMs,
    connectionsCheckingInterval: limits.checkMs,
    maxHeaderSize: limits.headerBytes,
    noDelay: true,
    // checkOrigin answers with an id and in the right error format.
    requireHostHeader: false,
  });
  shareConnections(server, limits.connections);
  const containment = new Containment(services.log);
  containment.serve(server);

  const pending = new PendingAnswers(limits.pipelined);
  const onRequest = (req: IncomingMessage, res: ServerResponse): void => {
    const { socket } = req;
    if (!pending.add(socket, res)) return void socket.destroy();
    const arrivedAt = performance.now();
    const id = newId();
    const { path: requested, query } = splitTarget(req.url ?? '');
    const path = routePath(requested);
    const match = findRoute(routes, path, req.method ?? 'GET');
    // Log the route, not the path: a URL may contain secrets.
    const route = match?.route.path ?? null;
    const span = beginSpan(services.tracer, req, id, route);
    const facts: RequestFacts = { id, trace_id: span.traceId, method: req.method, route };
    const client = new AbortController();
    const unread = unreadOf(socket, unreadAnswers);
    const reply = new Reply(id, familyOf(path, req.headers), res, { limits, signal: client.signal, unread });
    if (services.router.draining) reply.setHeader('connection', 'close');
    res.once('close', () => {
      if (!res.writableFinished) client.abort(new SvcError('CANCELLED', 'the client went away'));
      // An idle connection would keep a closing server open.
      if (!server.listening) server.closeIdleConnections();
      services.metrics.requestEnded(facts.route, res.statusCode);
      services.log.debug({ ...facts, status: res.statusCode, ms: performance.now() - arrivedAt }, 'request');
    });

    const request = { id, span, req, reply, services, arrivedAt, query, signal: client.signal };
    const sender: { caller?: Caller | null; readonly address: string | undefined } = { address: socket.remoteAddress };
    const onCaller = (caller: Caller | null): void => void Object.assign(facts, keyField((sender.caller = caller)));
    let failure: SvcError | null = null;
    answer(request, match, { control, bodies, onCaller })
      .catch((thrown: unknown) => {
        const error = SvcError.from(thrown);
        failure = error;
        services.failures.write(error, sender, facts, 'request failed');
        reply.fail(error);
      })
      .catch((error: unknown) => containment.end(socket, error))
      .finally(() => {
        endSpan(span, res, failure);
      });
  };

  handle(server, pending, services, onRequest);
  return server;
}

/** The client is the address, as for the number of connections: one address may have many, with and without keys. */
function unreadOf({ remoteAddress = '' }: Socket, shares: Shares): UnreadBytes {
  const network = networkOf(remoteAddress);
  return {
    take: (bytes) => shares.take(network, bytes),
    giveBack: (bytes) => shares.giveBack(network, bytes),
  };
}

/** Passes requests to `onRequest`; answers bytes that are not a valid request with an error. */
function handle(
  server: Server,
  pending: PendingAnswers,
  services: Services,
  onRequest: (req: IncomingMessage, res: ServerResponse) => void,
): void {
  server.once('listening', () => {
    server.on('error', (err) => services.log.error({ err }, 'a connection could not be accepted'));
  });
  server.on('request', onRequest);
  // 100-continue is sent only when a handler reads the body.
  server.on('checkContinue', onRequest);
  // Refused by checkExpectation, with an id and in the right error format.
  server.on('checkExpectation', onRequest);
  server.on('clientError', (error: NodeJS.ErrnoException, socket) => {
    // In the middle of an answer no error can be written.
    if (pending.hasBegun(socket)) socket.destroy();
    else refuseConnection(error, socket, services);
  });
}

/** Fields of a request's log lines; a key's name is added once it is known. */
interface RequestFacts extends Record<string, unknown> {
  readonly id: string;
  readonly route: string | null;
}

async function answer(
  request: Omit<Exchange, 'param' | 'caller' | 'body'>,
  match: ReturnType<typeof findRoute>,
  { control, bodies, onCaller }: { control: boolean; bodies: Shares; onCaller: (caller: Caller | null) => void },
): Promise<void> {
  const { req, reply, services } = request;
  const page = control ? undefined : allowPage(req, reply, services.origins);
  checkExpectation(req);
  if (!control) {
    const isOwn = match?.route.scope === 'admin' || match?.route.scope === 'admin_key';
    checkOrigin(req, services.allowedHosts, { isListed: page !== undefined, isOwn });
  }
  if (page !== undefined && isPreflight(req)) {
    answerPreflight(req, reply);
    return;
  }
  const scope = match?.route.scope ?? 'local';
  const caller = control ? CONTROL_CALLER : await authorize(req, scope, services.access, page);
  onCaller(caller);
  if (match === undefined) {
    const hint = nearHint(splitTarget(req.url ?? '').path, req.method ?? 'GET');
    throw new SvcError('NOT_FOUND', 'no route has this path', given({ hint }));
  }
  const { route, param } = match;
  if (!answers(route, req.method ?? 'GET')) {
    const allow = methodsOf([...PUBLIC, ...CONTROL], route.path);
    reply.setHeader('allow', allow);
    throw new SvcError('METHOD_NOT_ALLOWED', `this path answers ${allow} only`);
  }
  const { body: kind = 'json' } = route;
  if (!control && route.method !== 'GET' && kind !== 'none') checkContentType(req, kind);
  const address = `address:${networkOf(req.socket.remoteAddress ?? '')}`;
  const body = new BodyShare(bodies, caller === null ? address : shareOf(caller));
  try {
    await route.handler({ ...request, param, caller, body });
  } finally {
    body.giveBack();
  }
}

function newId(): string {
  return randomBytes(16).toString('hex');
}

function splitTarget(target: string): { path: string; query: URLSearchParams } {
  const mark = target.indexOf('?');
  if (mark === -1) return { path: target, query: new URLSearchParams() };
  return { path: target.slice(0, mark), query: new URLSearchParams(target.slice(mark + 1)) };
}

/** Answers and closes a connection whose data is not HTTP, has too large headers, or arrived too slowly. */
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
