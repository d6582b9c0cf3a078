/** Exercises a Wire without a network: the requests that it builds, and how it reads recorded events. */
import * as assert from 'uvu/assert';
import type { Quirks } from '../../../src/backends/cloud/provider.ts';
import type { RerankApi, WholeAnswer, Wire, WireEvent, WireRequest } from '../../../src/backends/cloud/wire.ts';
import { parseEmbedRequest, type VectorsEvent } from '../../../src/protocol/embed.ts';
import { SvcError } from '../../../src/protocol/errors.ts';
import { GenerateRequestSchema, type GenerateRequest } from '../../../src/protocol/generate.ts';
import { parse } from '../../../src/protocol/validate.ts';

/** A recorded event: its name, if the API names events, and its JSON data. */
export type Recorded = readonly [name: string | undefined, data: unknown];

export const USER = { role: 'user', content: 'Hi' } as const;
export const KEY = 'k-123';
export const PIXEL = 'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==';
export const WEATHER = {
  name: 'get_weather',
  description: 'The weather in a city.',
  parameters: { type: 'object', properties: { city: { type: 'string' } }, required: ['city'] },
};

type Wish = Partial<Record<keyof GenerateRequest, unknown>>;

export function ask(wire: Wire, model: string, wish: Wish, quirks: Quirks = {}): WireRequest {
  const request = parse(GenerateRequestSchema, { messages: [USER], ...wish });
  return wire.request(request, { model, key: KEY, quirks });
}

/** A request for vectors. REQUIRES: the API has embeddings. */
export function askVectors(wire: Wire, model: string, wish: object, quirks: Quirks = {}): WireRequest {
  return embeddingsOf(wire).request(parseEmbedRequest({ input: ['a'], ...wish }), { model, key: KEY, quirks });
}

/** Reads the answer to `count` inputs. */
export function readVectors(wire: Wire, body: unknown, count = 1): WholeAnswer<VectorsEvent> {
  return embeddingsOf(wire).read(body, count);
}

function embeddingsOf({ embeddings }: Wire): NonNullable<Wire['embeddings']> {
  assert.ok(embeddings);
  return embeddings;
}

/** REQUIRES: the API reranks. */
export function rerankOf({ rerank }: Wire): RerankApi {
  assert.ok(rerank);
  return rerank;
}

/** Request body as sent over the network. */
export function bodyOf(wire: Wire, model: string, wish: Wish, quirks: Quirks = {}): Record<string, unknown> {
  return JSON.parse(JSON.stringify(ask(wire, model, wish, quirks).body)) as Record<string, unknown>;
}

/** All wire events of an answer whose stream ends after the recorded events. */
export function answer(wire: Wire, events: readonly Recorded[], quirks: Quirks = {}): WireEvent[] {
  const reader = wire.reader(quirks);
  return [...events.flatMap(([name = '', data]) => reader.read({ name, data: JSON.stringify(data) })), ...reader.end()];
}

/** Text, reasoning and calls of an answer, joined. */
export function joined(events: readonly WireEvent[]): {
  text: string;
  reasoning: string;
  calls: { id: string; name: string; arguments: string }[];
} {
  const all = { text: '', reasoning: '', calls: [] as { id: string; name: string; arguments: string }[] };
  for (const event of events) {
    if (event.type === 'text') all.text += event.text;
    if (event.type === 'reasoning') all.reasoning += event.text;
    if (event.type !== 'tool_call') continue;
    const call = (all.calls[event.index] ??= { id: '', name: '', arguments: '' });
    if (event.id !== undefined) call.id = event.id;
    if (event.name !== undefined) call.name = event.name;
    call.arguments += event.arguments;
  }
  return all;
}

export function finishOf(events: readonly WireEvent[]): string | undefined {
  return events.flatMap((event) => (event.type === 'finish' ? [event.reason] : [])).at(-1);
}

export function usageOf(events: readonly WireEvent[]): unknown {
  return events.flatMap((event) => (event.type === 'usage' ? [event.usage] : [])).at(-1);
}

/** Returns the SvcError that `run` throws. */
export function thrown(run: () => unknown): SvcError {
  try {
    run();
  } catch (error) {
    assert.instance(error, SvcError);
    return error as SvcError;
  }
  throw new Error('it did not fail');
}

/** Asserts that the request is rejected and that the error names the parameter. */
export function refusesByName(wire: Wire, model: string, wish: Wish, param: string, quirks: Quirks = {}): void {
  const error = thrown(() => ask(wire, model, wish, quirks));
  assert.is(error.code, 'INVALID_REQUEST');
  assert.is(error.param, param);
}

/** Asserts that the answer is a failure wherever it is cut off. */
export function failsCutAnywhere(wire: Wire, whole: readonly Recorded[]): void {
  for (let length = 0; length < whole.length; length++) {
    assert.is(thrown(() => answer(wire, whole.slice(0, length))).code, 'PROVIDER_FAILED', String(length));
  }
}

/** Asserts that invalid data fails and is not repeated. `near`: almost valid events that contain "secret". */
export function refusesWhatIsNotTheApi(wire: Wire, near: readonly string[]): void {
  for (const data of ['<html>secret</html>', '"secret"', ...near]) {
    const error = thrown(() => wire.reader({}).read({ name: '', data }));
    assert.is(error.code, 'PROVIDER_FAILED', data);
    assert.not.match(JSON.stringify(error.toRecord()), 'secret');
  }
}
