/** One streamed chat over HTTP, with the time of each piece of text. */
import { request, type IncomingMessage } from 'node:http';
import { once } from 'node:events';

export interface Message {
  readonly role: 'system' | 'user' | 'assistant';
  /** Parts as in OpenAI's API, with pictures and sounds. */
  readonly content: string | readonly object[];
}

export interface Question {
  readonly messages: readonly Message[];
  readonly maxTokens: number;
  /** Further fields of the request, as in OpenAI's API. */
  readonly more?: Readonly<Record<string, unknown>>;
  /** API key of the client. */
  readonly key?: string;
  /** Aborted when the client leaves; `ask` rejects then. */
  readonly signal?: AbortSignal;
  /** Called for each piece of text with the number of pieces so far. */
  readonly onPiece?: (count: number) => void;
}

export interface Answer {
  readonly text: string;
  /** Model name in the server's response. */
  readonly model: string;
  /** Milliseconds from the request to each piece of text, or of a tool call. */
  readonly pieces: readonly number[];
  /** Milliseconds from the request to the first piece of each choice. */
  readonly firsts: readonly number[];
  /** Milliseconds from the request to the first piece of a tool call; null: there is none. */
  readonly firstCall: number | null;
  /** Token counts as reported by the server. */
  readonly inputTokens: number;
  readonly cachedTokens: number;
  readonly outputTokens: number;
  /** Milliseconds from the request to the end of the answer. */
  readonly total: number;
}

/** End-of-sequence tokens of the measured vocabularies, which models with random weights would choose at any time. */
const ENDS = [2, 128_001, 128_009, 151_643, 151_645];

export interface Target {
  readonly url: string;
  /** Number of tokens in the vocabulary. */
  readonly vocabulary: number;
}

/** Timeout of an answer: above what the slowest scenario plans for a turn. */
const LONGEST_MS = 600_000;

/** Part of an answer received so far; readable when `ask` rejects. */
export interface Told {
  pieces: number;
  model: string | null;
}

/** Rejects if the answer is not a stream, has neither text nor a tool call, or ends without a finish reason. */
export async function ask(
  target: Target,
  { messages, maxTokens, more = {}, key, signal, onPiece }: Question,
  told: Told = { pieces: 0, model: null },
): Promise<Answer> {
  const body = JSON.stringify({
    messages,
    max_tokens: maxTokens,
    temperature: 0,
    stream: true,
    stream_options: { include_usage: true },
    // Servers refuse token ids outside the vocabulary.
    logit_bias: Object.fromEntries(ENDS.filter((id) => id < target.vocabulary).map((id) => [id, -100])),
    ...more,
  });
  const from = performance.now();
  const response = await post(`${target.url}/v1/chat/completions`, body, { key, signal });

  let text = '';
  let usage: Usage | null = null;
  let isFinished = false;
  const [pieces, firsts]: [number[], number[]] = [[], []];
  let firstCall: number | null = null;
  for await (const chunk of chunksOf(response)) {
    usage = chunk.usage ?? usage;
    told.model = chunk.model;
    const [choice] = chunk.choices;
    if (choice === undefined) continue;
    const { content, tool_calls: calls } = choice.delta;
    if (content || calls?.length) {
      told.pieces = pieces.push(performance.now() - from);
      firsts[choice.index] ??= pieces.at(-1) as number;
      if (calls?.length) firstCall ??= pieces.at(-1) as number;
      text += content ?? '';
      onPiece?.(told.pieces);
    }
    isFinished ||= typeof choice.finish_reason === 'string';
  }
  if (!isFinished || usage === null || pieces.length === 0)
    throw new Error(`incomplete answer after ${String(pieces.length)} pieces of text`);
  return {
    text,
    model: told.model ?? '',
    pieces,
    firsts,
    firstCall,
    inputTokens: usage.prompt_tokens,
    cachedTokens: usage.prompt_tokens_details?.cached_tokens ?? 0,
    outputTokens: usage.completion_tokens,
    total: performance.now() - from,
  };
}

/** Rejects if the status is not 200. */
async function post(
  url: string,
  body: string,
  { key, signal }: { readonly key: string | undefined; readonly signal: AbortSignal | undefined },
): Promise<IncomingMessage> {
  const outgoing = request(url, {
    method: 'POST',
    headers: {
      'content-type': 'application/json',
      'content-length': Buffer.byteLength(body),
      ...(key === undefined ? {} : { authorization: `Bearer ${key}` }),
    },
    // No keep-alive: servers close idle connections.
    agent: false,
    signal: AbortSignal.any([AbortSignal.timeout(LONGEST_MS), ...(signal === undefined ? [] : [signal])]),
  });
  outgoing.end(body);
  const [response] = (await once(outgoing, 'response')) as [IncomingMessage];
  response.setEncoding('utf8');
  if (response.statusCode !== 200) throw new Error(`status ${String(response.statusCode)}: ${await all(response)}`);
  return response;
}

interface Usage {
  readonly prompt_tokens: number;
  readonly completion_tokens: number;
  readonly prompt_tokens_details?: { readonly cached_tokens?: number };
}

interface Chunk {
  readonly model: string;
  readonly choices: readonly {
    readonly index: number;
    readonly delta: { readonly content?: string | null; readonly tool_calls?: readonly unknown[] };
    readonly finish_reason?: string | null;
  }[];
  readonly usage?: Usage | null;
}

/** Yields the chunks of a stream of server-sent events. */
async function* chunksOf(response: AsyncIterable<string>): AsyncGenerator<Chunk, void> {
  let rest = '';
  for await (const part of response) {
    const lines = (rest + part).split('\n');
    rest = lines.pop() ?? '';
    for (const line of lines)
      if (line.startsWith('data: ') && line !== 'data: [DONE]') yield JSON.parse(line.slice('data: '.length)) as Chunk;
  }
}

async function all(response: IncomingMessage): Promise<string> {
  let text = '';
  for await (const part of response as AsyncIterable<string>) text += part;
  return text;
}

export function ttft({ pieces }: Answer): number {
  return pieces[0] as number;
}

/**
 * Tokens per second after the first piece. Uses the server's token count, because a piece may hold several tokens.
 */
export function decodeSpeed({ pieces, outputTokens }: Answer): number {
  const seconds = ((pieces.at(-1) as number) - (pieces[0] as number)) / 1000;
  return (outputTokens - 1) / seconds;
}

export function longestGap({ pieces }: Answer): number {
  return Math.max(...pieces.slice(1).map((at, index) => at - (pieces[index] as number)));
}
