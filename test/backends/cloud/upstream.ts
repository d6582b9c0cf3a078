/**
 * A provider on this machine that answers as a test tells it to, over real sockets: slowly, in pieces
 * of a byte, with comments in between, with an error where an answer was due, never, or not to the end.
 *
 *   const upstream = await startUpstream(async (turn) => {
 *     turn.event({ choices: [{ delta: { content: 'Hi' } }] });
 *     turn.end();
 *   });
 */
import { createServer, type IncomingHttpHeaders, type ServerResponse } from 'node:http';
import type { AddressInfo, Socket } from 'node:net';
import { once } from 'node:events';

/** What was asked. */
export interface Asked {
  readonly method: string;
  /** With the query. */
  readonly path: string;
  readonly headers: IncomingHttpHeaders;
  /** Of a JSON body; each test knows its shape. null: there was none. */
  readonly body: any;
}

/** Answers one request. A script that returns without an end leaves the answer open: a silence that never ends. */
export type Script = (turn: Turn) => Promise<void> | void;

export interface Upstream {
  /** `http://127.0.0.1:PORT` */
  readonly url: string;
  /** Every request so far. */
  readonly asked: readonly Asked[];
  /** Pieces written so far, of all answers. */
  written(): number;
  /** Connections that are open now. */
  connections(): number;
  /** What the next requests get. */
  script(script: Script): void;
  close(): Promise<void>;
}

export async function startUpstream(first: Script = (turn) => turn.json(500, {})): Promise<Upstream> {
  const asked: Asked[] = [];
  const sockets = new Set<Socket>();
  let current = first;
  let written = 0;

  const server = createServer((req, res) => {
    const pieces: Buffer[] = [];
    req.on('data', (piece: Buffer) => pieces.push(piece));
    req.on('end', () => {
      const text = Buffer.concat(pieces).toString();
      const request: Asked = {
        method: req.method ?? '',
        path: req.url ?? '',
        headers: req.headers,
        body: text === '' ? null : JSON.parse(text),
      };
      asked.push(request);
      const turn = new Turn(request, res, () => (written += 1));
      void (async () => current(turn))().catch((error: unknown) => res.destroy(error as Error));
    });
  });
  server.on('connection', (socket) => {
    sockets.add(socket.setNoDelay(true));
    socket.on('close', () => sockets.delete(socket));
    socket.on('error', () => undefined);
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');

  return {
    url: `http://127.0.0.1:${String((server.address() as AddressInfo).port)}`,
    asked,
    written: () => written,
    connections: () => sockets.size,
    script: (script) => {
      current = script;
    },
    close: async () => {
      server.close();
      for (const socket of sockets) socket.destroy();
      if (server.listening) await once(server, 'close');
    },
  };
}

export class Turn {
  readonly request: Asked;
  readonly #res: ServerResponse;
  readonly #onWrite: () => void;

  constructor(request: Asked, res: ServerResponse, onWrite: () => void) {
    this.request = request;
    this.#res = res;
    this.#onWrite = onWrite;
    res.on('error', () => undefined);
  }

  /** The client has left, or the answer is complete. */
  get isOver(): boolean {
    return this.#res.closed;
  }

  async over(): Promise<void> {
    if (!this.isOver) await once(this.#res, 'close');
  }

  /** A whole answer; a string goes out as it is. */
  json(status: number, body: unknown, headers: Record<string, string> = {}): void {
    this.#res
      .writeHead(status, { 'content-type': 'application/json', ...headers })
      .end(typeof body === 'string' ? body : JSON.stringify(body));
  }

  /** Without it the first piece begins a stream of events. */
  head(status = 200, headers: Record<string, string> = {}): void {
    this.#res.writeHead(status, { 'content-type': 'text/event-stream', ...headers }).flushHeaders();
  }

  /** Resolves when the next piece may be written: sooner or later the client has to read. */
  async write(piece: string | Uint8Array): Promise<void> {
    if (this.isOver) return;
    if (!this.#res.headersSent) this.head();
    this.#onWrite();
    if (!this.#res.write(piece)) await this.#drained();
  }

  /** One server-sent event; a string is sent as it is, anything else as JSON. */
  async event(data: unknown, name?: string): Promise<void> {
    const text = typeof data === 'string' ? data : JSON.stringify(data);
    await this.write(`${name === undefined ? '' : `event: ${name}\n`}data: ${text}\n\n`);
  }

  /** Each byte by itself, so that characters, lines and line ends are cut. */
  async bytes(text: string): Promise<void> {
    for (const byte of Buffer.from(text)) {
      await this.write(Uint8Array.of(byte));
      await new Promise((resolve) => setImmediate(resolve));
    }
  }

  end(): void {
    this.#res.end();
  }

  /** The connection breaks, whatever has been said. */
  reset(): void {
    this.#res.socket?.resetAndDestroy();
  }

  async #drained(): Promise<void> {
    const res = this.#res;
    await new Promise<void>((resolve) => {
      const done = (): void => {
        res.off('drain', done).off('close', done);
        resolve();
      };
      res.on('drain', done).on('close', done);
    });
  }
}

/** What was sent and received when somebody spoke to a real server: a file of lines, one event each. */
export function recorded(events: readonly (readonly [name: string | undefined, data: unknown])[]): Script {
  return async (turn) => {
    for (const [name, data] of events) await turn.event(data, name);
    turn.end();
  };
}
