/**
 * A fake provider on real loopback sockets, scripted by the test: it can answer slowly, byte by byte, with comments
 * in between, with an error, incompletely, or never.
 *
 *   const upstream = await startUpstream(async (turn) => {
 *     turn.event({ choices: [{ delta: { content: 'Hi' } }] });
 *     turn.end();
 *   });
 */
import { createServer, type IncomingHttpHeaders, type ServerResponse } from 'node:http';
import type { AddressInfo, Socket } from 'node:net';
import { once } from 'node:events';

/** A received request. */
export interface Asked {
  readonly method: string;
  /** Path with query. */
  readonly path: string;
  readonly headers: IncomingHttpHeaders;
  /** Parsed JSON body, whose shape each test knows; null if there was none. */
  readonly body: any;
}

/** Answers one request. If it returns without ending the answer, the answer stays open and silent. */
export type Script = (turn: Turn) => Promise<void> | void;

export interface Upstream {
  /** `http://127.0.0.1:PORT` */
  readonly url: string;
  /** All requests so far. */
  readonly asked: readonly Asked[];
  /** Number of pieces written so far, over all answers. */
  written(): number;
  /** Number of open connections. */
  connections(): number;
  /** Sets the script for the next requests. */
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

  /** True if the client has disconnected or the answer is complete. */
  get isOver(): boolean {
    return this.#res.closed;
  }

  async over(): Promise<void> {
    if (!this.isOver) await once(this.#res, 'close');
  }

  /** Sends a whole answer; a string is sent unchanged, anything else as JSON. */
  json(status: number, body: unknown, headers: Record<string, string> = {}): void {
    this.#res
      .writeHead(status, { 'content-type': 'application/json', ...headers })
      .end(typeof body === 'string' ? body : JSON.stringify(body));
  }

  /** Sends the response head. Without this call, the first piece sends the head of an event stream. */
  head(status = 200, headers: Record<string, string> = {}): void {
    this.#res.writeHead(status, { 'content-type': 'text/event-stream', ...headers }).flushHeaders();
  }

  /** Resolves when the next piece may be written, with back-pressure from the client. */
  async write(piece: string | Uint8Array): Promise<void> {
    if (this.isOver) return;
    if (!this.#res.headersSent) this.head();
    this.#onWrite();
    if (!this.#res.write(piece)) await this.#drained();
  }

  /** Sends one server-sent event; a string is sent unchanged, anything else as JSON. */
  async event(data: unknown, name?: string): Promise<void> {
    const text = typeof data === 'string' ? data : JSON.stringify(data);
    await this.write(`${name === undefined ? '' : `event: ${name}\n`}data: ${text}\n\n`);
  }

  /** Sends each byte separately, which splits characters, lines and line ends. */
  async bytes(text: string): Promise<void> {
    for (const byte of Buffer.from(text)) {
      await this.write(Uint8Array.of(byte));
      await new Promise((resolve) => setImmediate(resolve));
    }
  }

  end(): void {
    this.#res.end();
  }

  /** Resets the connection. */
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

/** A script that replays recorded events, then ends the answer. */
export function recorded(events: readonly (readonly [name: string | undefined, data: unknown])[]): Script {
  return async (turn) => {
    for (const [name, data] of events) await turn.event(data, name);
    turn.end();
  };
}
