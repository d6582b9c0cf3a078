/**
 * Writes an answer: a record, a text, a stream of events or an error.
 *
 * A stream's headers wait for its first event, so that an earlier error is a plain HTTP status. If no event comes for
 * long, a heartbeat opens the stream. A later error is sent as a last event in the stream's own encoding, and the
 * connection is destroyed: so a client that checks only the end of the body notices that the answer is incomplete.
 */
import type { ServerResponse } from 'node:http';
import { anthropicStatus, toAnthropicError } from '../../protocol/anthropic/error.ts';
import { SvcError } from '../../protocol/errors.ts';
import { toOllamaError } from '../../protocol/ollama/error.ts';
import { openAiStatus, toOpenAiError } from '../../protocol/openai/error.ts';
import { drained } from './drained.ts';
import { discardBody } from './discard-body.ts';

/** API whose error format the clients of a path read. */
export type ApiFamily = 'openai' | 'anthropic' | 'ollama' | 'cohere' | 'native';

export interface StreamFormat {
  readonly contentType: string;
  /** Text that is written after `heartbeatMs` without other data, or a function that makes it; null: no heartbeat. */
  readonly heartbeat: string | (() => string) | null;
  /** Heartbeats come after this many times `heartbeatMs`; absent: 1. */
  readonly heartbeatFactor?: number;
  encodeError(error: SvcError, id: string): string;
}

export interface ReplyLimits {
  readonly heartbeatMs: number;
  /** Longest wait of an answer, or of its next chunk, for a client that does not read. */
  readonly stallMs: number;
}

/** Counts the bytes of whole answers until they are sent. */
export interface UnreadBytes {
  /** Returns false if the client holds too many already. */
  take(bytes: number): boolean;
  giveBack(bytes: number): void;
}

/** Time for an error event to reach the client before the connection is destroyed. */
const LAST_WORDS_MS = 2000;
const RETRY_AFTER_SECONDS = 1;
const JSON_TYPE = 'application/json; charset=utf-8';
/** Chunk size of a whole answer: the timeout applies to each chunk, not to the answer. */
const PIECE_BYTES = 64 * 1024;
/** A shorter answer is not counted: its connection takes as much memory. Probes are answered whatever else is unread. */
const SMALL_BYTES = 4 * 1024;

export class Reply {
  readonly #id: string;
  readonly #family: ApiFamily;
  readonly #res: ServerResponse;
  readonly #limits: ReplyLimits;
  readonly #signal: AbortSignal;
  readonly #unread: UnreadBytes;
  #isReserved = false;
  #stream: StreamFormat | null = null;
  #heartbeat: NodeJS.Timeout | null = null;
  /** Ends once the client reads. Shared by all writers: the choices of an answer write to one stream. */
  #draining: Promise<void> | null = null;

  /** `signal`: aborted when the client goes away. */
  constructor(
    id: string,
    family: ApiFamily,
    res: ServerResponse,
    { limits, signal, unread }: { limits: ReplyLimits; signal: AbortSignal; unread: UnreadBytes },
  ) {
    this.#id = id;
    this.#family = family;
    this.#res = res;
    this.#limits = limits;
    this.#signal = signal;
    this.#unread = unread;
    res.setHeader('x-request-id', id);
    // Anthropic's clients read this one.
    if (family === 'anthropic') res.setHeader('request-id', id);
  }

  setHeader(name: string, value: string): void {
    this.#res.setHeader(name, value);
  }

  /** Answers `Expect: 100-continue`: the client may send its body. */
  continue(): void {
    this.#res.writeContinue();
  }

  /**
   * Counts about `bytes` for a whole answer, before work that must not be done twice: the answer is not refused then.
   * Throws BUSY if the client has not read its earlier answers.
   */
  reserve(bytes: number): void {
    this.#count(bytes);
    this.#isReserved = true;
  }

  /** Throws BUSY if the client has not read its earlier answers, unless room was reserved. */
  json(status: number, body: unknown): void {
    this.text(status, toJson(body), JSON_TYPE);
  }

  /** As `json`. */
  text(status: number, body: string, contentType = 'text/plain; charset=utf-8'): void {
    const bytes = Buffer.from(body);
    if (!this.#isReserved) this.#count(bytes.length);
    this.#whole(status, contentType, bytes);
  }

  /** Answers without a body. 304: what the client has of it is still right. */
  empty(status: 204 | 304 = 204): void {
    this.#res.writeHead(status);
    void this.#send(Buffer.alloc(0));
  }

  /** Begins a stream; nothing is sent before the first `write` or heartbeat. */
  stream(format: StreamFormat): void {
    this.#stream = format;
    const { heartbeat, heartbeatFactor = 1 } = format;
    if (heartbeat === null) return;
    const beat = (): void => {
      this.#open(format);
      // Data that is still in the buffer keeps the connection alive as well.
      if (this.#res.writableNeedDrain) return;
      this.#res.write(typeof heartbeat === 'string' ? heartbeat : heartbeat());
    };
    const timer = setInterval(beat, this.#limits.heartbeatMs * heartbeatFactor).unref();
    this.#heartbeat = timer;
    this.#res.once('close', () => clearInterval(timer));
  }

  /** Resolves when more may be written. Rejects with CANCELLED when the client goes away or stops reading. */
  async write(text: string): Promise<void> {
    if (this.#stream === null) throw new Error('no stream was begun');
    this.#signal.throwIfAborted();
    this.#open(this.#stream);
    this.#heartbeat?.refresh();
    if (!this.#res.write(text)) await this.#drained();
  }

  /** Ends a stream cleanly. */
  end(): void {
    if (this.#heartbeat !== null) clearInterval(this.#heartbeat);
    this.#res.end();
    this.#cutUnlessRead();
  }

  /** Answers with an error, or ends a stream with it. */
  fail(error: SvcError): void {
    const res = this.#res;
    if (this.#heartbeat !== null) clearInterval(this.#heartbeat);
    if (res.destroyed || res.writableEnded) return;
    if (res.headersSent) {
      const destroy = (): void => void res.destroy();
      setTimeout(destroy, LAST_WORDS_MS).unref();
      res.write(this.#stream?.encodeError(error, this.#id) ?? '', destroy);
      return;
    }
    const http = this.#status(error);
    if (error.code === 'BUSY' || error.code === 'NOT_READY' || error.retryAfterSeconds !== undefined) {
      res.setHeader('retry-after', String(Math.ceil(error.retryAfterSeconds ?? RETRY_AFTER_SECONDS)));
    }
    if (error.code === 'UNAUTHORIZED') res.setHeader('www-authenticate', 'Bearer');
    // OpenAI's and Anthropic's clients retry every 429 and 5xx unless this header forbids it.
    if ((http >= 500 || http === 429) && !error.retryable) res.setHeader('x-should-retry', 'false');
    this.#whole(http, JSON_TYPE, Buffer.from(toJson(this.#encode(error))));
  }

  #status(error: SvcError): number {
    switch (this.#family) {
      case 'openai':
        return openAiStatus(error);
      case 'anthropic':
        return anthropicStatus(error);
      default:
        return error.facts.http;
    }
  }

  #encode(error: SvcError): unknown {
    switch (this.#family) {
      case 'openai':
        return toOpenAiError(error, this.#id);
      case 'anthropic':
        return toAnthropicError(error, this.#id);
      case 'ollama':
        return toOllamaError(error);
      case 'cohere':
        // Cohere's clients read `message`, those of llama-server `error`.
        return { message: error.told, ...toOpenAiError(error, this.#id) };
      case 'native':
        return { id: this.#id, error: error.toRecord() };
    }
  }

  #whole(status: number, contentType: string, bytes: Buffer): void {
    this.#res.writeHead(status, {
      'content-type': contentType,
      'content-length': bytes.length,
      'x-content-type-options': 'nosniff',
    });
    // Not awaited: the handler is done once it has passed its answer on.
    void this.#send(bytes);
  }

  /** Counts an answer until it is sent. Throws BUSY. */
  #count(bytes: number): void {
    if (bytes <= SMALL_BYTES || this.#res.destroyed) return;
    if (!this.#unread.take(bytes)) {
      throw new SvcError('BUSY', 'too many answers to this client wait to be read', {
        hint: 'read them, or close their connections',
        retryAfterSeconds: RETRY_AFTER_SECONDS,
      });
    }
    this.#res.once('close', () => this.#unread.giveBack(bytes));
  }

  /** Sends a whole answer. Never rejects: the connection of a client that does not read is destroyed. */
  async #send(bytes: Buffer): Promise<void> {
    const res = this.#res;
    try {
      let at = 0;
      for (; bytes.length - at > PIECE_BYTES; at += PIECE_BYTES) {
        this.#signal.throwIfAborted();
        if (!res.write(bytes.subarray(at, at + PIECE_BYTES))) await this.#drained();
      }
      if (!res.req.complete) {
        res.write(bytes.subarray(at));
        at = bytes.length;
        const isComplete = await discardBody(res.req);
        if (!isComplete) res.once('finish', () => res.req.socket.destroy());
      }
      res.end(bytes.subarray(at));
      this.#cutUnlessRead();
    } catch {
      res.destroy();
    }
  }

  /** Destroys the connection unless the rest of the answer is sent in time. REQUIRES: the answer has ended. */
  #cutUnlessRead(): void {
    const res = this.#res;
    if (res.writableFinished || res.destroyed) return;
    const timer = setTimeout(() => {
      if (isItsTurn(res)) res.destroy();
      else timer.refresh();
    }, this.#limits.stallMs);
    res.once('close', () => clearTimeout(timer));
  }

  #open(format: StreamFormat): void {
    if (this.#res.headersSent) return;
    this.#res.writeHead(200, {
      'content-type': format.contentType,
      'cache-control': 'no-cache, no-transform',
      'x-accel-buffering': 'no',
      'x-content-type-options': 'nosniff',
    });
  }

  async #drained(): Promise<void> {
    this.#draining ??= drained(this.#res, this.#signal, this.#limits.stallMs, () => isItsTurn(this.#res)).finally(
      () => {
        this.#draining = null;
      },
    );
    await this.#draining;
  }
}

function toJson(body: unknown): string {
  return `${JSON.stringify(body)}\n`;
}

/** Returns false while earlier answers on the same connection are still being written. */
function isItsTurn(res: ServerResponse): boolean {
  return res.socket !== null;
}
