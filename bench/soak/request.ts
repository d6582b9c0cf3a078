/**
 * One random request over one of the daemon's interfaces, and what became of it. Some are wrong and have to be
 * refused; some clients leave before their answer has ended, or before it has begun.
 */
import { randomInt } from 'node:crypto';
import type { ClientReadableStream } from '@grpc/grpc-js';
import { SvcError } from '../../src/protocol/errors.ts';
import { connectTo, readFailure } from '../../test/grpc/scripted.ts';
import { ask, open } from '../../test/http/ask.ts';
import type { Daemon } from '../daemon.ts';
import { words } from '../peers/words.ts';
import { CELLS, inWordsOfGrpc, inWordsOfOpenAi, randomQuestion } from './question.ts';
import { chance, pick, weighted } from './random.ts';

/** left: its client went away; refused: as it had to be. */
export type Outcome = 'answered' | 'refused' | 'left';

export const EMBEDDER = 'embedder';

/** Rejects when it ends as it must not. Each kind has a name for the report. */
export interface Kind {
  readonly name: string;
  readonly weight: number;
  run(daemon: Daemon): Promise<Outcome>;
}

export const KINDS: readonly Kind[] = [
  { name: 'chat over HTTP, streamed', weight: 40, run: (daemon) => chat(daemon, true) },
  { name: 'chat over HTTP, whole', weight: 15, run: (daemon) => chat(daemon, false) },
  { name: 'generation over the control socket', weight: 15, run: generateOverSocket },
  { name: 'generation over gRPC', weight: 15, run: generateOverGrpc },
  { name: 'embeddings over HTTP', weight: 5, run: embed },
  { name: 'health, models and metrics', weight: 5, run: look },
  { name: 'requests that are wrong', weight: 5, run: wrong },
];

export const randomKind = (): Kind => weighted(KINDS.map((kind) => [kind.weight, kind]));

/** When a client leaves: after so many pieces; null: never. */
const patience = (): number | null => (chance(0.15) ? randomInt(6) : null);

const portOf = ({ url }: Daemon): { readonly port: number } => ({ port: Number(new URL(url).port) });

async function chat(daemon: Daemon, stream: boolean): Promise<Outcome> {
  const leaving = patience();
  const client = new AbortController();
  if (leaving !== null && !stream) setTimeout(() => client.abort(), leaving * 5);
  let pieces = 0;
  let text = '';
  let status = 0;
  try {
    const body = { ...inWordsOfOpenAi(randomQuestion()), stream };
    const response = await open(portOf(daemon), '/v1/chat/completions', { body, signal: client.signal });
    status = response.statusCode ?? 0;
    response.setEncoding('utf8');
    for await (const piece of response) {
      text += piece as string;
      if (stream && (pieces += 1) > (leaving ?? Infinity)) client.abort();
    }
  } catch (error) {
    if (client.signal.aborted) return 'left';
    throw error;
  }
  const isWhole = stream ? text.endsWith('data: [DONE]\n\n') : text.includes('"finish_reason"');
  if (status !== 200 || !isWhole) throw new Error(`status ${status}: ${text.slice(-300)}`);
  return 'answered';
}

async function generateOverSocket({ client }: Daemon): Promise<Outcome> {
  const leaving = patience();
  const controller = new AbortController();
  let pieces = 0;
  try {
    for await (const { type } of client.generate(randomQuestion(), controller.signal)) {
      if (type === 'text' && (pieces += 1) > (leaving ?? Infinity)) controller.abort();
    }
    return 'answered';
  } catch (error) {
    if (controller.signal.aborted) return 'left';
    throw error;
  }
}

async function generateOverGrpc({ grpc }: Daemon): Promise<Outcome> {
  const connection = connectTo(grpc);
  const leaving = patience();
  let pieces = 0;
  let hasLeft = false;
  try {
    const call: ClientReadableStream<{ event: string }> = connection.stream(
      'Inference/Generate',
      inWordsOfGrpc(randomQuestion()),
    );
    for await (const { event } of call as AsyncIterable<{ event: string }>) {
      if (event !== 'text' || (pieces += 1) <= (leaving ?? Infinity)) continue;
      hasLeft = true;
      call.cancel();
    }
    return hasLeft ? 'left' : 'answered';
  } catch (error) {
    if (hasLeft) return 'left';
    throw new Error(readFailure(error as Parameters<typeof readFailure>[0]).message, { cause: error });
  } finally {
    connection.close();
  }
}

async function embed(daemon: Daemon): Promise<Outcome> {
  const input = Array.from({ length: 1 + randomInt(8) }, () => words(1 + randomInt(60)));
  const { status, text } = await ask(portOf(daemon), '/v1/embeddings', { body: { model: EMBEDDER, input } });
  if (status !== 200) throw new Error(`status ${status}: ${text.slice(0, 300)}`);
  return 'answered';
}

async function look(daemon: Daemon): Promise<Outcome> {
  const path = pick(['/livez', '/readyz?verbose', '/v1/runtime/health', '/v1/models', '/metrics']);
  const { status } = await ask(portOf(daemon), path);
  if (status !== 200) throw new Error(`${path}: status ${status}`);
  return 'answered';
}

/** Each with the status that it has to be answered with. */
async function wrong(daemon: Daemon): Promise<Outcome> {
  const messages = [{ role: 'user', content: 'hi' }];
  const [expected, body] = pick<readonly [number, object | string]>([
    [400, '{"messages": ['],
    [400, { messages: [] }],
    [400, { messages, temperature: -1 }],
    [400, { messages, grammar: 'root ::= (' }],
    [400, { messages, response_format: { type: 'json_schema', json_schema: { schema: { type: 'poem' } } } }],
    [404, { messages, model: 'nobody' }],
    [413, { messages: [{ role: 'user', content: words(CELLS + 100) }] }],
  ]);
  const headers = { 'content-type': 'application/json' };
  const { status, text } = await ask(portOf(daemon), '/v1/chat/completions', { body, headers });
  if (status !== expected) throw new Error(`status ${status} in place of ${expected}: ${text.slice(0, 300)}`);
  return 'refused';
}

/** What a request failed with, for the report: without anything that differs from one to the next. */
export function nameOf(error: unknown): string {
  return error instanceof SvcError ? `${error.code}: ${error.message}` : (error as Error).message;
}
