/**
 * HTTP to a collector, over node:http and one kept-alive connection: undici would cost a daemon without providers 0.2 s
 * and its memory. Redirects are not followed.
 */
import type { Agent, ClientRequest, IncomingMessage, RequestOptions } from 'node:http';
import { parsedJson } from '../protocol/foreign-text.ts';

/** Result of an export. `retry`: the collector may accept it later. */
export type Delivery =
  | { readonly type: 'accepted'; readonly rejectedSpans: number }
  | { readonly type: 'refused'; readonly reason: string }
  | { readonly type: 'retry'; readonly reason: string; readonly afterMs: number | null };

export interface CollectorOptions {
  readonly url: URL;
  readonly timeoutMs: number;
  /** Called for each export, so that a renewed key is used. Throws if they cannot be read. */
  headers(): Readonly<Record<string, string>>;
}

interface Http {
  readonly Agent: new (options: { readonly keepAlive: boolean; readonly maxSockets: number }) => Agent;
  request(url: URL, options: RequestOptions): ClientRequest;
}

const ANSWER_BYTES = 64 * 1024;
const RETRYABLE: ReadonlySet<number> = new Set([408, 429, 502, 503, 504]);
const MOST_AFTER_MS = 300_000;

export class TraceCollector {
  readonly #options: CollectorOptions;
  #agent: Agent | null = null;

  constructor(options: CollectorOptions) {
    this.#options = options;
  }

  /** Never rejects. */
  async send(body: object, signal: AbortSignal): Promise<Delivery> {
    try {
      const { status, text, retryAfter } = await this.#post(JSON.stringify(body), signal);
      if (status >= 200 && status < 300) return { type: 'accepted', rejectedSpans: rejectedIn(text) };
      const reason = `status ${String(status)}`;
      return RETRYABLE.has(status)
        ? { type: 'retry', reason, afterMs: waitOf(retryAfter) }
        : { type: 'refused', reason };
    } catch (error) {
      return { type: 'retry', reason: reasonOf(error), afterMs: null };
    }
  }

  close(): void {
    this.#agent?.destroy();
  }

  async #post(body: string, signal: AbortSignal): Promise<{ status: number; text: string; retryAfter: string }> {
    const { url, timeoutMs, headers } = this.#options;
    const limit = AbortSignal.any([signal, AbortSignal.timeout(timeoutMs)]);
    const own = headers();
    const http: Http = url.protocol === 'https:' ? await import('node:https') : await import('node:http');
    this.#agent ??= new http.Agent({ keepAlive: true, maxSockets: 1 });
    const request = http.request(url, {
      method: 'POST',
      agent: this.#agent,
      signal: limit,
      headers: {
        ...own,
        'content-type': 'application/json',
        'content-length': Buffer.byteLength(body),
        'user-agent': 'svc',
      },
    });
    const answer = await new Promise<IncomingMessage>((resolve, reject) => {
      request.once('response', resolve).once('error', reject).end(body);
    });
    const { statusCode = 0, headers: answered } = answer;
    return { status: statusCode, text: await textOf(answer), retryAfter: answered['retry-after'] ?? '' };
  }
}

async function textOf(answer: IncomingMessage): Promise<string> {
  let text = '';
  for await (const piece of answer.setEncoding('utf8') as AsyncIterable<string>) {
    text += piece;
    // Returning destroys the connection.
    if (text.length > ANSWER_BYTES) return '';
  }
  return text;
}

/** Spans that the collector has accepted the request without. */
function rejectedIn(text: string): number {
  const { partialSuccess } = (parsedJson(text) ?? {}) as { partialSuccess?: { rejectedSpans?: unknown } | null };
  const rejected = Number(partialSuccess?.rejectedSpans ?? 0);
  return Number.isSafeInteger(rejected) && rejected > 0 ? rejected : 0;
}

function waitOf(retryAfter: string): number | null {
  return /^\d{1,6}$/.test(retryAfter) ? Math.min(Number(retryAfter) * 1000, MOST_AFTER_MS) : null;
}

/** Names the error without quoting what a server or a file says. */
function reasonOf(error: unknown): string {
  const { code, name } = error as { code?: unknown; name?: unknown };
  if (name === 'TimeoutError' || code === 'ABORT_ERR') return 'timeout';
  return typeof code === 'string' ? code : 'it cannot be reached';
}
