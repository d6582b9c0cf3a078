/** Sends requests like any HTTP client and counts their outcomes. */
import type { IncomingMessage } from 'node:http';
import { open } from '../http/ask.ts';

/** Outcome of a request. Lost: neither an answer nor an error; left: the client disconnected. */
export interface End {
  readonly kind: 'answered' | 'failed' | 'lost' | 'left';
  /** Description of what the client saw. */
  readonly saw: string;
}

export interface Question {
  readonly model?: string;
  readonly prompt?: string;
  readonly maxTokens?: number;
  readonly stream?: boolean;
  /** True for an answer that takes seconds. */
  readonly long?: boolean;
}

/** A streamed answer whose first text has arrived. */
export interface Stream {
  readonly end: Promise<End>;
  /** Text so far. */
  text(): string;
  /** Disconnects the client. */
  leave(): void;
}

/** Maximum duration of a request; one that has not ended by then counts as lost. */
const LONGEST_MS = 120_000;
export const LONG_TOKENS = 4000;
const NO_CONNECTION = 'no connection';

export class Requests {
  sent = 0;
  answered = 0;
  /** How each lost request ended. */
  readonly lost: string[] = [];
  /** Number of failed requests by error code. */
  readonly failed = new Map<string, number>();
  /** Headers of every request, such as an API key. */
  headers: Record<string, string> = {};
  readonly #port: number;

  constructor(port: number) {
    this.#port = port;
  }

  /** Sends a request and waits for its end. Never rejects. */
  async ask(question: Question = {}): Promise<End> {
    return await this.#send(question, new AbortController(), () => undefined);
  }

  /** Calls `onBegun` on the first text, then resolves. Throws if the answer ends before. */
  async stream(question: Question, onBegun: () => void = () => undefined): Promise<Stream> {
    const client = new AbortController();
    let text = '';
    let begin: () => void = () => undefined;
    const begun = new Promise<undefined>((resolve) => (begin = () => resolve(undefined)));
    const end = this.#send({ ...question, stream: true }, client, (piece) => {
      if (text === '') onBegun();
      text += piece;
      begin();
    });
    const early = await Promise.race([begun, end]);
    if (early !== undefined) throw new Error(`the answer ended before its first words: ${early.saw}`);
    return { end, text: () => text, leave: () => client.abort() };
  }

  async #send(question: Question, client: AbortController, onText: (text: string) => void): Promise<End> {
    this.sent += 1;
    const signal = AbortSignal.any([client.signal, AbortSignal.timeout(LONGEST_MS)]);
    let status = 0;
    let body = '';
    let why = '';
    try {
      const response = await this.#open(question, signal);
      status = response.statusCode ?? 0;
      response.setEncoding('utf8');
      for await (const chunk of response) {
        body += chunk as string;
        if (question.stream === true && /"content":"[^"]/.test(chunk as string)) onText(chunk as string);
      }
      if (status === 200 && (question.stream !== true || body.endsWith('data: [DONE]\n\n'))) {
        this.answered += 1;
        return { kind: 'answered', saw: 'the whole answer' };
      }
    } catch (error) {
      if (client.signal.aborted) return { kind: 'left', saw: 'nothing: the client went away' };
      if ((error as NodeJS.ErrnoException).code === 'ECONNREFUSED') return this.#fail(NO_CONNECTION, 'ECONNREFUSED');
      why = ` (${(error as NodeJS.ErrnoException).code ?? (error as Error).message})`;
    }
    const error = errorIn(body);
    if (error !== null) {
      const where = status === 200 ? 'the stream ended with' : `HTTP ${status}`;
      return this.#fail(error.code, `${where} ${error.code}: ${error.message}`);
    }
    const saw = status === 0 ? 'a connection that was cut' : `an answer of status ${status} that was cut`;
    this.lost.push(`${question.stream === true ? 'stream' : 'request'}: ${saw}${why}`);
    return { kind: 'lost', saw };
  }

  async #open(question: Question, signal: AbortSignal): Promise<IncomingMessage> {
    const { model = 'builtin', prompt = 'Hello', maxTokens = 8, stream = false, long = false } = question;
    return await open({ port: this.#port }, '/v1/chat/completions', {
      headers: this.headers,
      signal,
      body: {
        model,
        messages: [{ role: 'user', content: prompt }],
        stream,
        max_completion_tokens: long ? LONG_TOKENS : maxTokens,
        // The bias forces the same token, so the answer does not end by itself.
        ...(long ? { logit_bias: { '100': 100 } } : {}),
      },
    });
  }

  #fail(code: string, saw: string): End {
    this.failed.set(code, (this.failed.get(code) ?? 0) + 1);
    return { kind: 'failed', saw };
  }
}

/** Returns the error in a whole answer, or in the last event of a stream. */
function errorIn(body: string): { code: string; message: string } | null {
  const last = body.trimEnd().split('\n').at(-1) ?? '';
  try {
    const { error } = JSON.parse(last.replace(/^data: /, '')) as { error?: { code?: string; message?: string } };
    return typeof error?.code === 'string' ? { code: error.code, message: error.message ?? '' } : null;
  } catch {
    return null;
  }
}
