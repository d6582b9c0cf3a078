/** Requests as no polite client would send them: any header, any method, raw bytes. */
import { request, type IncomingHttpHeaders, type IncomingMessage, type RequestOptions } from 'node:http';
import { connect, type Socket } from 'node:net';
import { once } from 'node:events';

export interface Answer {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  readonly text: string;
  /** Of a JSON body; each test knows its shape. */
  json(): any;
  /** False: the connection ended before the body did. */
  readonly complete: boolean;
}

export interface AskOptions {
  readonly method?: string;
  readonly headers?: Record<string, string>;
  /** An object is sent as JSON, declared so. */
  readonly body?: string | Buffer | object;
  /** Aborting ends the exchange, which then fails. */
  readonly signal?: AbortSignal | undefined;
}

export type To = { readonly port: number } | { readonly socketPath: string };

/** The answer as it begins. */
export async function open(
  to: To,
  path: string,
  { method, headers, body, signal }: AskOptions = {},
): Promise<IncomingMessage> {
  const json = typeof body === 'object' && !Buffer.isBuffer(body);
  const target: RequestOptions =
    'socketPath' in to && to.socketPath !== '' ? { socketPath: to.socketPath } : { ...to, socketPath: undefined };
  const req = request({
    host: '127.0.0.1',
    ...target,
    path,
    method: method ?? (body === undefined ? 'GET' : 'POST'),
    headers: { ...(json ? { 'content-type': 'application/json' } : {}), ...headers },
    agent: false,
    ...(signal === undefined ? {} : { signal }),
  });
  req.end(json ? JSON.stringify(body) : body);
  // A server that has answered early may close while the body is still being sent.
  const [res] = (await once(req, 'response')) as [IncomingMessage];
  req.on('error', () => undefined);
  return res;
}

/** The whole answer. */
export async function ask(to: To, path: string, options: AskOptions = {}): Promise<Answer> {
  const res = await open(to, path, options);
  let text = '';
  res.setEncoding('utf8');
  try {
    for await (const chunk of res) text += chunk as string;
  } catch {
    // Told by `complete`.
  }
  return {
    status: res.statusCode ?? 0,
    headers: res.headers,
    text,
    complete: res.complete,
    json: () => JSON.parse(text),
  };
}

/** A bare connection. */
export async function dial(port: number): Promise<Socket> {
  const socket = connect(port, '127.0.0.1');
  await once(socket, 'connect');
  return socket;
}

/** Everything that comes until the other side closes. */
export async function readAll(socket: Socket): Promise<string> {
  let text = '';
  try {
    for await (const chunk of socket) text += String(chunk);
  } catch {
    // A reset is an end too.
  }
  return text;
}
