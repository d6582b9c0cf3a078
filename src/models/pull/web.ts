/**
 * HTTP to hubs, registries and the stores behind them, none of which is trusted.
 *
 * - A credential goes to the origin that it is for and to no other, whatever a server redirects to.
 * - https only. Plain http goes to an address that a person has named, if that is in this machine or a
 *   private network; a server on the internet leads nobody into either (net/reach.ts).
 * - Every answer that is read whole has a bound, and a time. Compressed bodies are refused: nothing here
 *   needs them, and they are how few bytes become many.
 * - `HTTPS_PROXY` and `NO_PROXY` count, for https.
 */
import type { Readable } from 'node:stream';
import { Dispatchers } from '../../net/dispatchers.ts';
import { checkHost, guardedLookup, kindOfHost, type AddressKind, type Reach } from '../../net/reach.ts';
import { redirectOf } from '../../net/redirect.ts';
import { SvcError } from '../../protocol/errors.ts';
import { downloadFailed } from './failures.ts';

export interface Credential {
  /** As URL.origin tells it. */
  readonly origin: string;
  readonly token: string;
}

export interface Asked {
  readonly url: URL;
  readonly method?: 'GET' | 'HEAD';
  readonly headers?: Readonly<Record<string, string>>;
  readonly credential?: Credential | undefined;
  readonly signal: AbortSignal;
}

export interface Answer {
  readonly url: URL;
  readonly status: number;
  /** Of a response header, in lower case. */
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
  readonly #dispatchers = new Dispatchers({
    connectTimeoutMs: CONNECT_MS,
    lookup: (reach) => guardedLookup(reach, refuse),
  });

  /** @param stallMs a server that says nothing for so long is given up */
  constructor({ stallMs }: { readonly stallMs: number }) {
    this.#stallMs = stallMs;
  }

  /**
   * One request, and no redirect followed.
   * @param named the origin that a person has named, from which all else follows
   * @throws SvcError DOWNLOAD_FAILED; `signal.reason`
   */
  async ask({ url, method = 'GET', headers = {}, credential, signal }: Asked, named: URL): Promise<Answer> {
    const reach = reachOf(url, named);
    checkHost(url.hostname, reach, refuse);
    const undici = await import('undici');
    signal.throwIfAborted();
    const authorization =
      credential?.origin === url.origin && isPrivateChannel(url) ? { authorization: `Bearer ${credential.token}` } : {};
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
      // An abort between here and its reader must not go unheard.
      answer.body.on('error', () => undefined);
      if ((header('content-encoding') ?? 'identity') !== 'identity') {
        answer.body.destroy();
        throw downloadFailed(`${url.host} sent a compressed answer that nobody asked for`, { retryable: false });
      }
      return { url, status: answer.statusCode, header, body: answer.body };
    } catch (error) {
      signal.throwIfAborted();
      throw connectionFailure(error, url);
    }
  }

  /** As `ask`, through redirects; those that `stopAt` says true of are answers too. */
  async follow(asked: Asked, named: URL, stopAt: (next: URL) => boolean = () => false): Promise<Answer> {
    let url = asked.url;
    for (let redirects = 0; ; redirects += 1) {
      const answer = await this.ask({ ...asked, url }, named);
      const next = leadsTo(answer);
      if (next === null || stopAt(next)) return answer;
      answer.body.destroy();
      if (redirects === REDIRECTS) throw downloadFailed(`${url.host} redirects without an end`, { retryable: false });
      url = next;
    }
  }

  /** The JSON of an answer of status 200, of at most `mostBytes`; null for any other status. */
  async json(
    asked: Asked,
    named: URL,
    mostBytes: number,
  ): Promise<{ readonly answer: Answer; readonly value: unknown }> {
    const signal = AbortSignal.any([asked.signal, AbortSignal.timeout(SMALL_ANSWER_MS)]);
    try {
      const answer = await this.follow({ ...asked, signal }, named);
      const text = await readText(answer, mostBytes);
      return { answer, value: answer.status === 200 ? parseJson(text, answer.url) : null };
    } catch (error) {
      asked.signal.throwIfAborted();
      if (signal.aborted) throw downloadFailed(`${asked.url.host} took too long for its answer`);
      throw error;
    }
  }

  async close(): Promise<void> {
    await this.#dispatchers.destroy();
  }
}

/** Where a redirect leads; null: the answer is none. @throws SvcError DOWNLOAD_FAILED */
export function leadsTo(answer: Answer): URL | null {
  const { url } = answer;
  return redirectOf(answer, url, () => downloadFailed(`${url.host} redirects to what is no URL`, { retryable: false }));
}

/** At most `mostBytes` of a body, which is destroyed when it has more. @throws SvcError DOWNLOAD_FAILED */
export async function readText({ body, url }: Answer, mostBytes: number): Promise<string> {
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

/** What broke a connection, as one of ours. */
export function connectionFailure(error: unknown, url: URL): SvcError {
  if (error instanceof SvcError) return error;
  const inner = (error as { cause?: unknown }).cause;
  if (inner instanceof SvcError) return inner;
  const code = (error as NodeJS.ErrnoException).code ?? 'no reason given';
  const words: Readonly<Record<string, string>> = {
    UND_ERR_CONNECT_TIMEOUT: 'does not answer',
    UND_ERR_HEADERS_TIMEOUT: 'does not answer',
    UND_ERR_BODY_TIMEOUT: 'stopped sending',
    UND_ERR_SOCKET: 'broke the connection off',
    ECONNRESET: 'broke the connection off',
    ECONNREFUSED: 'refuses connections',
    ENOTFOUND: 'is not known here: is there a network?',
    EAI_AGAIN: 'is not known here: is there a network?',
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

/** From an address in this machine or a private network one may be led anywhere, from the internet not into those. */
function reachOf(url: URL, named: URL): Reach {
  const home = kindOfHost(named.hostname);
  const isNear = home === 'loopback' || home === 'private';
  if (url.protocol === 'https:') return isNear || url.origin === named.origin ? ANYWHERE : INTERNET;
  if (named.protocol === 'http:') return NEIGHBOURS;
  throw downloadFailed(`${named.host} leads to plain http at ${url.host}`, { retryable: false });
}

const NEIGHBOURS: Reach = new Set(['private', 'loopback']);

/** Nobody else reads what goes there. */
function isPrivateChannel(url: URL): boolean {
  return url.protocol === 'https:' || kindOfHost(url.hostname) === 'loopback';
}

function refuse(hostname: string, kind: AddressKind): SvcError {
  const where = {
    public: 'the internet, where nothing goes over plain http',
    private: 'a private network',
    loopback: 'this machine',
    forbidden: 'an address that no server of models has',
  }[kind];
  return downloadFailed(`${hostname} leads to ${where}`, { retryable: false });
}
