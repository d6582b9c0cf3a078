/** HTTP requests with any header, method or raw bytes, also invalid ones. */
import { request, type IncomingHttpHeaders, type IncomingMessage, type RequestOptions } from 'node:http';
import { connect, type Socket } from 'node:net';
import { once } from 'node:events';
import { given } from '../../src/protocol/given.ts';

export interface Answer {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  readonly text: string;
  /** Parses a JSON body, whose shape each test knows. */
  json(): any;
  /** False if the connection ended before the body. */
  readonly complete: boolean;
}

export interface AskOptions {
  readonly method?: string;
  readonly headers?: Record<string, string>;
  /** An object is sent as JSON with its content type. */
  readonly body?: string | Buffer | object;
  /** Aborting fails the exchange. */
  readonly signal?: AbortSignal | undefined;
}

export type To = { readonly port: number; readonly host?: string } | { readonly socketPath: string };

/** Sends a request and returns the response once its head has arrived. */
export async function open(
  to: To,
  path: string,
  { method, headers, body, signal }: AskOptions = {},
): Promise<IncomingMessage> {
  const json = typeof body === 'object' && !Buffer.isBuffer(body);
  const sent = json ? JSON.stringify(body) : body;
  // Node sends the body of a DELETE without its length.
  const length = method === 'DELETE' && sent !== undefined ? String(Buffer.byteLength(sent)) : undefined;
  const target: RequestOptions =
    'socketPath' in to && to.socketPath !== '' ? { socketPath: to.socketPath } : { ...to, socketPath: undefined };
  const req = request({
    host: '127.0.0.1',
    ...target,
    path,
    method: method ?? (body === undefined ? 'GET' : 'POST'),
    headers: {
      ...(json ? { 'content-type': 'application/json' } : {}),
      ...given({ 'content-length': length }),
      ...headers,
    },
    agent: false,
    ...given({ signal }),
  });
  req.end(sent);
  // A server that answers early may close while the body is still being sent.
  const [res] = (await once(req, 'response').catch((error: unknown) => {
    // The system's message is no more than "write EPIPE".
    const written = `${String(req.socket?.bytesWritten ?? 0)} bytes written`;
    (error as Error).message += ` (${req.method} ${path.slice(0, 100)}, ${written})`;
    throw error;
  })) as [IncomingMessage];
  req.on('error', () => undefined);
  return res;
}

/** Sends a request and returns the whole answer. */
export async function ask(to: To, path: string, options: AskOptions = {}): Promise<Answer> {
  const res = await open(to, path, options);
  let text = '';
  res.setEncoding('utf8');
  try {
    for await (const chunk of res) text += chunk as string;
  } catch {
    // Reported by `complete`.
  }
  return {
    status: res.statusCode ?? 0,
    headers: res.headers,
    text,
    complete: res.complete,
    json: () => JSON.parse(text),
  };
}

/** Opens a bare TCP connection, from the given address of this machine. */
export async function dial(port: number, localAddress = '127.0.0.1'): Promise<Socket> {
  const socket = connect({ port, host: '127.0.0.1', localAddress });
  await once(socket, 'connect');
  return socket;
}

/** Reads until the other side closes. */
export async function readAll(socket: Socket): Promise<string> {
  let text = '';
  try {
    for await (const chunk of socket) text += String(chunk);
  } catch {
    // A reset counts as the end.
  }
  return text;
}
