/**
 * HTTP client for hubs, registries and their storage servers, none of which is trusted.
 *
 * - A credential is sent only to its own origin, wherever a server redirects to.
 * - https only. Plain http is allowed to an address that the user named, on this machine or in a private network. A
 *   server on the internet cannot redirect into either (net/reach.ts).
 * - Responses that are read whole have a size limit and a timeout. Compressed bodies are refused: they are not needed,
 *   and could expand without limit.
 * - `HTTPS_PROXY` and `NO_PROXY` are respected for https.
 */
import type { Readable } from 'node:stream';
import { Dispatchers } from '../../net/dispatchers.ts';
import { checkHost, guardedLookup, kindOfHost, type AddressKind, type Reach } from '../../net/reach.ts';
import { redirectOf } from '../../net/redirect.ts';
import { loadUndici } from '../../net/undici.ts';
import { SvcError } from '../../protocol/errors.ts';
import { downloadFailed } from './failures.ts';

export interface Credential {
  /** In the format of URL.origin. */
  readonly origin: string;
  readonly token: string;
  /** Default `Bearer`. */
  readonly scheme?: 'Bearer' | 'Basic';
}

export interface WebOptions {
  /** Timeout without any bytes from the server. */
  readonly stallMs: number;
  /** Certificates of authorities to trust instead of the default ones, in PEM. */
  readonly ca?: string | undefined;
}

export interface Asked {
  readonly url: URL;
  readonly method?: 'GET' | 'HEAD';
  readonly headers?: Readonly<Record<string, string>>;
  readonly credential?: Credential | undefined;
  readonly signal: AbortSignal;
}

export interface WebAnswer {
  readonly url: URL;
  readonly status: number;
  /** Returns the value of a response header. `name` is in lower case. */
  header(name: string): string | undefined;
  /** To be read to its end, or destroyed. */
  readonly body: Readable;
}

const INTERNET: Reach = new Set(['public']);
const ANYWHERE: Reach = new Set(['public', 'private', 'loopback']);
const CONNECT_MS = 15_000;
const SMALL_ANSWER_MS = 60_000;
const REDIRECTS = 5;

export class Web {
  readonly #stallMs: number;
  readonly #dispatchers: Dispatchers;

  constructor({ stallMs, ca }: WebOptions) {
    this.#stallMs = stallMs;
    this.#dispatchers = new Dispatchers({
      connectTimeoutMs: CONNECT_MS,
      lookup: (reach) => guardedLookup(reach, refuse),
      ca,
    });
  }

  /**
   * Sends one request; follows no redirect.
   * @param named the origin that the user named; decides which addresses are allowed
   * @throws SvcError DOWNLOAD_FAILED; `signal.reason`
   */
  async ask({ url, method = 'GET', headers = {}, credential, signal }: Asked, named: URL): Promise<WebAnswer> {
    const reach = reachOf(url, named);
    checkHost(url.hostname, reach, refuse);
    const undici = await loadUndici();
    signal.throwIfAborted();
    const authorization =
      credential?.origin === url.origin && isPrivateChannel(url)
        ? { authorization: `${credential.scheme ?? 'Bearer'} ${credential.token}` }
        : {};
    try {
      const answer = await undici.request(url, {
        dispatcher: this.#dispatchers.for(undici, url, reach),
        method,
        headers: { 'user-agent': 'svc', 'accept-encoding': 'identity', ...headers, ...authorization },
        signal,
        headersTimeout: this.#stallMs,
        bodyTimeout: this.#stallMs,
      });
      const header = (name: string): string | undefined => {
        const value = answer.headers[name];
        return typeof value === 'object' ? value[0] : value;
      };
      // Without a listener, an abort before the body is read would be an uncaught error.
      answer.body.on('error', () => undefined);
      if ((header('content-encoding') ?? 'identity') !== 'identity') {
        answer.body.destroy();
        throw downloadFailed(`${url.host} sent a compressed answer, which was not requested`, { retryable: false });
      }
      return { url, status: answer.statusCode, header, body: answer.body };
    } catch (error) {
      signal.throwIfAborted();
      throw connectionFailure(error, url);
    }
  }

  /** As `ask`, but follows redirects; returns a redirect for which `stopAt` is true. */
  async follow(asked: Asked, named: URL, stopAt: (next: URL) => boolean = () => false): Promise<WebAnswer> {
    let url = asked.url;
    for (let redirects = 0; ; redirects += 1) {
      const answer = await this.ask({ ...asked, url }, named);
      const next = leadsTo(answer);
      if (next === null || stopAt(next)) return answer;
      answer.body.destroy();
      if (redirects === REDIRECTS) throw downloadFailed(`${url.host} redirects too many times`, { retryable: false });
      url = next;
    }
  }

  /** Resolves with the JSON of a 200 response of at most `mostBytes`; null for any other status. */
  async json(
    asked: Asked,
    named: URL,
    mostBytes: number,
  ): Promise<{ readonly answer: WebAnswer; readonly value: unknown }> {
    const signal = AbortSignal.any([asked.signal, AbortSignal.timeout(SMALL_ANSWER_MS)]);
    try {
      const answer = await this.follow({ ...asked, signal }, named);
      const text = await readText(answer, mostBytes);
      return { answer, value: answer.status === 200 ? parseJson(text, answer.url) : null };
    } catch (error) {
      asked.signal.throwIfAborted();
      if (signal.aborted) throw downloadFailed(`${asked.url.host} took too long to answer`);
      throw error;
    }
  }

  async close(): Promise<void> {
    await this.#dispatchers.destroy();
  }
}

/** Returns the target of a redirect; null: the response is not one. @throws SvcError DOWNLOAD_FAILED */
export function leadsTo(answer: WebAnswer): URL | null {
  const { url } = answer;
  return redirectOf(answer, url, () => downloadFailed(`${url.host} redirects to an invalid URL`, { retryable: false }));
}

/** Reads a body of at most `mostBytes`. @throws SvcError DOWNLOAD_FAILED, also for a larger body */
export async function readText({ body, url }: WebAnswer, mostBytes: number): Promise<string> {
  const pieces: Buffer[] = [];
  let length = 0;
  try {
    for await (const piece of body as AsyncIterable<Buffer>) {
      length += piece.length;
      if (length > mostBytes) {
        throw downloadFailed(`the answer of ${url.host} is larger than ${mostBytes} bytes`, { retryable: false });
      }
      pieces.push(piece);
    }
  } catch (error) {
    throw connectionFailure(error, url);
  } finally {
    body.destroy();
  }
  return Buffer.concat(pieces).toString('utf8');
}

/** Converts a connection error to a SvcError. */
export function connectionFailure(error: unknown, url: URL): SvcError {
  if (error instanceof SvcError) return error;
  const inner = (error as { cause?: unknown }).cause;
  if (inner instanceof SvcError) return inner;
  const code = (error as NodeJS.ErrnoException).code ?? 'no reason given';
  const words: Readonly<Record<string, string>> = {
    UND_ERR_CONNECT_TIMEOUT: 'does not answer',
    UND_ERR_HEADERS_TIMEOUT: 'does not answer',
    UND_ERR_BODY_TIMEOUT: 'stopped sending',
    UND_ERR_SOCKET: 'closed the connection early',
    ECONNRESET: 'closed the connection early',
    ECONNREFUSED: 'refuses connections',
    ENOTFOUND: 'cannot be resolved: check the network connection',
    EAI_AGAIN: 'cannot be resolved: check the network connection',
  };
  return downloadFailed(`${url.host} ${words[code] ?? `cannot be reached (${code})`}`, { cause: error });
}

function parseJson(text: string, url: URL): unknown {
  try {
    return JSON.parse(text);
  } catch (error) {
    throw downloadFailed(`the answer of ${url.host} is not JSON`, { retryable: false, cause: error });
  }
}

/** Addresses that may be reached. A private or local server may redirect anywhere, one on the internet only to it. */
function reachOf(url: URL, named: URL): Reach {
  const home = kindOfHost(named.hostname);
  const isNear = home === 'loopback' || home === 'private';
  if (url.protocol === 'https:') return isNear || url.origin === named.origin ? ANYWHERE : INTERNET;
  if (named.protocol === 'http:') return NEIGHBOURS;
  throw downloadFailed(`${named.host} redirects to plain http at ${url.host}, which is not allowed`, {
    retryable: false,
  });
}

const NEIGHBOURS: Reach = new Set(['private', 'loopback']);

/** True if a credential sent there cannot be read on the way. */
function isPrivateChannel(url: URL): boolean {
  return url.protocol === 'https:' || kindOfHost(url.hostname) === 'loopback';
}

function refuse(hostname: string, kind: AddressKind): SvcError {
  const where = {
    public: 'on the internet, where plain http is not allowed',
    private: 'in a private network',
    loopback: 'this machine',
    forbidden: 'a reserved address',
  }[kind];
  return downloadFailed(`refused to connect to ${hostname}: it is ${where}`, { retryable: false });
}
