/**
 * One random request over one of the daemon's interfaces, and its outcome. Some requests are invalid and must be
 * refused; some clients disconnect before or during their answer.
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

/** left: the client disconnected; refused: as expected. */
export type Outcome = 'answered' | 'refused' | 'left';

export const EMBEDDER = 'embedder';

export interface Kind {
  /** Plural, for the report. */
  readonly name: string;
  readonly weight: number;
  /** Sends a request. Rejects if it fails. */
  run(daemon: Daemon): Promise<Outcome>;
}

export const KINDS: readonly Kind[] = [
  { name: 'streamed chats over HTTP', weight: 40, run: (daemon) => chat(daemon, true) },
  { name: 'unstreamed chats over HTTP', weight: 15, run: (daemon) => chat(daemon, false) },
  { name: 'generations over the control socket', weight: 15, run: generateOverSocket },
  { name: 'generations over gRPC', weight: 15, run: generateOverGrpc },
  { name: 'embeddings over HTTP', weight: 5, run: embed },
  { name: 'requests for health, models or metrics', weight: 5, run: look },
  { name: 'invalid requests', weight: 5, run: wrong },
];

export const randomKind = (): Kind => weighted(KINDS.map((kind) => [kind.weight, kind]));

/** Number of pieces after which the client disconnects; null: never. */
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
    for await (const { type } of client.generate(randomQuestion(), { signal: controller.signal })) {
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

/** Sends an invalid request and checks the status. */
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
  if (status !== expected) throw new Error(`status ${status}, expected ${expected}: ${text.slice(0, 300)}`);
  return 'refused';
}

/** Returns the reason of a failure, equal for equal failures, for the report. */
export function nameOf(error: unknown): string {
  return error instanceof SvcError ? `${error.code}: ${error.message}` : (error as Error).message;
}
