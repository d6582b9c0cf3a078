/** Every API that takes a request of a client, with a valid request, bad ones, and the shape of its errors. */
import * as assert from 'uvu/assert';
import { wav } from '../../support/media-files.ts';

type Body = Readonly<Record<string, unknown>>;

/** What an error in an API's shape says. Throws unless it has that shape. */
export interface Told {
  readonly message: string;
  /** Field at fault; empty: the shape has no place for it, and the message names it. */
  readonly param: string;
}

export type Shape = (body: Record<string, unknown>, status: number) => Told;

/** The types of OpenAI's and Anthropic's errors, by HTTP status; above 500 another. */
const OPENAI: Readonly<Record<number, string>> = { 401: 'authentication_error', 429: 'rate_limit_error' };
const ANTHROPIC: Readonly<Record<number, string>> = {
  400: 'invalid_request_error',
  401: 'authentication_error',
  404: 'not_found_error',
  413: 'request_too_large',
  429: 'rate_limit_error',
};

const openai: Shape = ({ error }, status) => {
  const { message, type, param, code } = error as Record<string, string | null>;
  assert.is(type, OPENAI[status] ?? (status < 500 ? 'invalid_request_error' : 'server_error'));
  assert.type(code, 'string');
  return { message: String(message), param: param ?? '' };
};

const anthropic: Shape = (body, status) => {
  const { type, message, details } = body['error'] as Record<string, unknown>;
  assert.equal([body['type'], type], ['error', ANTHROPIC[status] ?? 'api_error']);
  assert.match(String(body['request_id']), /^[0-9a-f]{32}$/);
  return { message: String(message), param: (details as { param?: string }).param ?? '' };
};

const ollama: Shape = (body) => {
  assert.equal(Object.keys(body), ['error']);
  return { message: String(body['error']), param: '' };
};

const cohere: Shape = (body, status) => {
  const told = openai(body, status);
  assert.is(typeof body['message'], 'string');
  return told;
};

const native: Shape = ({ id, error }) => {
  const { code, message, param } = error as Record<string, string | undefined>;
  assert.match(String(id), /^[0-9a-f]{32}$/);
  assert.match(String(code), /^[A-Z_]+$/);
  return { message: String(message), param: param ?? '' };
};

/** Status of a prompt that is too long: that of the API's own service, where clients act on it. */
export function statusOfLong({ shape }: TriedApi): number {
  return shape === openai || shape === anthropic ? 400 : 413;
}

export interface TriedApi {
  readonly name: string;
  readonly path: string;
  readonly shape: Shape;
  /** A valid request. */
  readonly body: Body;
  readonly isForm?: boolean;
  /** Fields with a wrong type, and the path that the error names. */
  readonly wrong: Body;
  readonly wrongParam: string;
  /** Fields with a temperature that is out of range, and its path; absent: nothing is sampled. */
  readonly hot?: readonly [fields: Body, param: string];
  /** Fields whose texts are longer than the model's context. */
  readonly long: Body;
  /** The API limits no text: how many tokens, or more, the answer to `long` has. Absent: `long` is refused. */
  readonly tokensIn?: (answer: Record<string, unknown>) => unknown;
  /** Fields of an answer that goes on and on as a stream; absent: no streams. */
  readonly endless?: Body;
  /** What only a complete stream has. */
  readonly end?: RegExp;
}

const LONG = 'llama '.repeat(20_000);
const HI = [{ role: 'user', content: 'Hi' }];
const LONG_CHAT = [{ role: 'user', content: LONG }];
const HOT = [{ temperature: 101 }, 'temperature'] as const;
const MANY = 6000;
const chat = { model: 'llama', messages: HI };
const ranking = { model: 'ranker', query: 'q', documents: ['a', 'b'] };
const options = { num_predict: MANY, seed: 1 };

export const TRIED: readonly TriedApi[] = [
  {
    name: 'chat completions',
    path: '/v1/chat/completions',
    shape: openai,
    body: { ...chat, max_tokens: 2 },
    wrong: { messages: [{ role: 'user', content: 7 }] },
    wrongParam: 'messages[0].content',
    hot: HOT,
    long: { messages: LONG_CHAT },
    endless: { stream: true, max_tokens: MANY, seed: 1 },
    end: /\[DONE\]/,
  },
  {
    name: 'completions',
    path: '/v1/completions',
    shape: openai,
    body: { model: 'llama', prompt: 'Hi', max_tokens: 2 },
    wrong: { prompt: { text: 'Hi' } },
    wrongParam: 'prompt',
    hot: HOT,
    long: { prompt: LONG },
    endless: { stream: true, max_tokens: MANY, seed: 1 },
    end: /\[DONE\]/,
  },
  {
    name: 'responses',
    path: '/v1/responses',
    shape: openai,
    body: { model: 'llama', input: 'Hi', max_output_tokens: 2 },
    wrong: { max_output_tokens: 'many' },
    wrongParam: 'max_output_tokens',
    hot: HOT,
    long: { input: LONG },
    endless: { stream: true, max_output_tokens: MANY, seed: 1 },
    end: /response\.(completed|incomplete)/,
  },
  {
    name: 'input tokens of responses',
    path: '/v1/responses/input_tokens',
    shape: openai,
    body: { model: 'llama', input: 'Hi' },
    wrong: { instructions: 7 },
    wrongParam: 'instructions',
    long: { input: LONG },
    tokensIn: ({ input_tokens: tokens }) => tokens,
  },
  {
    name: 'embeddings',
    path: '/v1/embeddings',
    shape: openai,
    body: { model: 'vectors', input: 'Hi' },
    wrong: { input: [{}] },
    wrongParam: 'input[0]',
    long: { input: LONG },
  },
  {
    name: 'transcriptions',
    path: '/v1/audio/transcriptions',
    shape: openai,
    isForm: true,
    body: { model: 'hears', file: wav(4000, 440) },
    wrong: { stream: 'perhaps' },
    wrongParam: 'stream',
    hot: [{ temperature: '101' }, 'temperature'],
    long: { prompt: '\u{1F600}'.repeat(8192) },
    endless: { stream: 'true' },
    end: /transcript\.text\.done/,
  },
  {
    name: 'messages',
    path: '/v1/messages',
    shape: anthropic,
    body: { ...chat, max_tokens: 2 },
    wrong: { messages: [{ role: 'user', content: [{ type: 'text', text: 7 }] }] },
    wrongParam: 'messages[0].content[0].text',
    hot: HOT,
    long: { messages: LONG_CHAT },
    endless: { stream: true, max_tokens: MANY, seed: 1 },
    end: /message_stop/,
  },
  {
    name: 'tokens of messages',
    path: '/v1/messages/count_tokens',
    shape: anthropic,
    body: chat,
    wrong: { system: 7 },
    wrongParam: 'system',
    long: { messages: LONG_CHAT },
    tokensIn: ({ input_tokens: tokens }) => tokens,
  },
  {
    name: 'Ollama chat',
    path: '/api/chat',
    shape: ollama,
    body: { ...chat, stream: false, options: { num_predict: 2 } },
    wrong: { messages: [{ role: 'user', content: 7 }] },
    wrongParam: 'messages[0].content',
    hot: [{ options: { temperature: 101 } }, 'options.temperature'],
    long: { messages: LONG_CHAT },
    endless: { stream: true, options },
    end: /"done":true/,
  },
  {
    name: 'Ollama generate',
    path: '/api/generate',
    shape: ollama,
    body: { model: 'llama', prompt: 'Hi', stream: false, options: { num_predict: 2 } },
    wrong: { prompt: 7 },
    wrongParam: 'prompt',
    hot: [{ options: { temperature: 101 } }, 'options.temperature'],
    long: { prompt: LONG },
    endless: { stream: true, options },
    end: /"done":true/,
  },
  {
    name: 'Ollama embed',
    path: '/api/embed',
    shape: ollama,
    body: { model: 'vectors', input: 'Hi' },
    wrong: { input: 7 },
    wrongParam: 'input',
    hot: [{ options: { temperature: 101 } }, 'options.temperature'],
    long: { input: LONG, truncate: false },
  },
  {
    name: 'Ollama embeddings',
    path: '/api/embeddings',
    shape: ollama,
    body: { model: 'vectors', prompt: 'Hi' },
    wrong: { prompt: 7 },
    wrongParam: 'prompt',
    hot: [{ options: { temperature: 101 } }, 'options.temperature'],
    long: { prompt: LONG, truncate: false },
  },
  ...['/v1/rerank', '/v2/rerank', '/rerank'].map((path) => ({
    name: `reranking at ${path}`,
    path,
    shape: cohere,
    body: ranking,
    wrong: { documents: ['a', 7] },
    wrongParam: 'documents[1]',
    long: { query: LONG },
  })),
  {
    name: 'tokenize',
    path: '/tokenize',
    shape: openai,
    body: { model: 'llama', content: 'Hi' },
    wrong: { content: 7 },
    wrongParam: 'content',
    long: { content: LONG },
    tokensIn: ({ tokens }) => (tokens as unknown[]).length,
  },
  {
    name: 'detokenize',
    path: '/detokenize',
    shape: openai,
    body: { model: 'llama', tokens: [5] },
    wrong: { tokens: ['a'] },
    wrongParam: 'tokens[0]',
    long: { tokens: Array.from({ length: 20_000 }, () => 300) },
    tokensIn: ({ content }) => String(content).length,
  },
  {
    name: 'apply-template',
    path: '/apply-template',
    shape: openai,
    body: chat,
    wrong: { messages: 7 },
    wrongParam: 'messages',
    hot: HOT,
    long: { messages: LONG_CHAT },
    tokensIn: ({ prompt }) => String(prompt).split('llama ').length,
  },
  {
    name: "llama-server's completion",
    path: '/completion',
    shape: openai,
    body: { model: 'llama', prompt: 'a', n_predict: 2 },
    wrong: { prompt: 7 },
    wrongParam: 'prompt',
    hot: HOT,
    long: { prompt: LONG },
    endless: { stream: true, n_predict: MANY, seed: 1 },
    end: /"stop":true/,
  },
  {
    name: 'infill',
    path: '/infill',
    shape: openai,
    body: { model: 'infill', input_prefix: 'a', input_suffix: 'b', n_predict: 2 },
    wrong: { input_prefix: 7 },
    wrongParam: 'input_prefix',
    hot: HOT,
    long: { input_prefix: LONG },
    endless: { stream: true, n_predict: MANY, seed: 1 },
    end: /"stop":true/,
  },
  {
    name: "svc's generate",
    path: '/v1/runtime/generate',
    shape: native,
    body: { ...chat, max_tokens: 2 },
    wrong: { messages: [{ role: 'user', content: 7 }] },
    wrongParam: 'messages[0].content',
    hot: [{ sampling: { temperature: 101 } }, 'sampling.temperature'],
    long: { messages: LONG_CHAT },
    endless: { max_tokens: MANY, sampling: { seed: 1 } },
    end: /"type":"finish"/,
  },
  {
    name: "svc's embed",
    path: '/v1/runtime/embed',
    shape: native,
    body: { model: 'vectors', input: ['Hi'] },
    wrong: { input: [7] },
    wrongParam: 'input[0]',
    long: { input: [LONG] },
  },
  {
    name: "svc's rerank",
    path: '/v1/runtime/rerank',
    shape: native,
    body: ranking,
    wrong: { documents: ['a', 7] },
    wrongParam: 'documents[1]',
    long: { query: LONG },
  },
];
