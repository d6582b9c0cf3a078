/** Sends the request of a declared field to a real listener with a scripted backend, and checks what comes of it. */
import * as assert from 'uvu/assert';
import { startScripted, type ScriptedListener } from '../http/scripted.ts';
import type { Api, Field } from './declare.ts';

type Fields = Record<string, unknown>;

/** A row of docs/apis.md. */
export interface Outcome {
  readonly field: string;
  readonly verdict: Field['verdict'];
  readonly how: string;
}

interface Sent {
  readonly status: number;
  readonly answer: string;
  /** What the backend and the store were asked for. */
  readonly request: unknown;
}

interface Probed extends ScriptedListener {
  /** The 32 digits of a stored response's id; empty: none is stored. */
  readonly stored: string;
}

/** Checks every field of an API. */
export async function probe(api: Api): Promise<Outcome[]> {
  const listener = await startScripted();
  listener.world.key = 'mine';
  // A second model for the routes that describe one.
  listener.world.policies = { fast: { candidates: ['local'], fallback_on: [] } };
  if (api.script !== undefined) listener.backend.script = api.script;
  try {
    const stored = api.hasStored === true ? await storedBy(listener) : '';
    const outcomes: Outcome[] = [];
    const wrong: string[] = [];
    for (const field of api.fields) {
      try {
        outcomes.push(await outcomeOf({ ...listener, stored }, api, field));
      } catch (error) {
        wrong.push((error as Error).message);
      }
    }
    assert.equal(wrong, [], `${String(wrong.length)} declarations of ${api.title} do not hold:\n${wrong.join('\n')}`);
    return outcomes;
  } finally {
    await listener.stop();
  }
}

async function outcomeOf(listener: Probed, api: Api, field: Field): Promise<Outcome> {
  const context = { ...api.base, ...field.context };
  const sent = await send(
    listener,
    api,
    field.sent === undefined ? withField(context, field) : { ...context, ...field.sent },
  );
  if (field.verdict === 'honoured' && field.at === 'required') return await neededOf(listener, api, field);
  const what = `${api.title}: ${field.name}: ${sent.answer.slice(0, 300)}`;
  const row = { field: field.name, verdict: field.verdict };
  if (field.verdict === 'refused') {
    assert.is(sent.status, 400, what);
    const [message, named] = errorOf(sent.answer);
    assert.match(`${message} ${named}`, patternOf(field.param ?? field.name), what);
    return { ...row, how: message };
  }
  assert.is(sent.status, 200, what);
  const without = await send(listener, api, context);
  if (field.verdict === 'ignored') {
    assert.is(without.status, 200, `${what} (without: ${without.answer.slice(0, 300)})`);
    assert.equal(sent.request, without.request, what);
    return { ...row, how: field.why };
  }
  if (field.at === 'answer') {
    assert.is.not(sent.answer, without.answer, what);
    return { ...row, how: 'changes the answer' };
  }
  const found = valueAt(sent.request, field.at);
  assert.is.not(found, undefined, `${what}: the backend got ${JSON.stringify(sent.request)}`);
  assert.not.equal(found, valueAt(without.request, field.at), what);
  return { ...row, how: `\`${field.at}\`` };
}

/** A field whose value the scripted world cannot change: the request without it is refused. */
async function neededOf(listener: Probed, api: Api, { name, verdict }: Field): Promise<Outcome> {
  const { status, answer } = await send(listener, api, { ...api.base, [name]: undefined });
  assert.is(status, 400, `${api.title}: without ${name}: ${answer}`);
  const [message, named] = errorOf(answer);
  assert.match(`${message} ${named}`, patternOf(name), `${api.title}: without ${name}`);
  return { field: name, verdict, how: 'required' };
}

/** Sends a request and returns the answer without what differs between any two. */
async function send({ url, backend, world, stored }: Probed, api: Api, body: Fields): Promise<Sent> {
  const asked: unknown[] = [];
  world.shelf = {
    ...world.shelf,
    copy: async ({ id }, copy) => void asked.push({ source: id, destination: copy }),
    remove: async ({ id }) => void asked.push({ model: id }),
    create: async (model, { id }, settings) => {
      asked.push({ model, from: id, ...settings });
      return [];
    },
  };
  world.pull = async function* (request) {
    asked.push(request);
  };
  const lists = [
    backend.requests,
    backend.embedRequests,
    backend.rerankRequests,
    backend.tokenizeRequests,
    backend.detokenizeRequests,
  ];
  for (const list of lists) list.length = 0;
  const path = api.path.replace('STORED', stored);
  const text = JSON.stringify(body).replaceAll('STORED', stored);
  const res = await (api.method === 'GET'
    ? fetch(url + path + queryOf(JSON.parse(text) as Fields))
    : fetch(url + path, {
        method: api.method ?? 'POST',
        ...(api.isForm === true
          ? { body: formOf(body) }
          : { body: text, headers: { 'content-type': 'application/json' } }),
      }));
  const answer = (await res.text())
    .replaceAll(/[0-9a-f]{32}/g, 'ID')
    .replaceAll(/"(created|created_at|completed_at)":("[^"]*"|\d+)/g, '"$1":0');
  return { status: res.status, answer, request: [...lists.flat(), ...asked].at(0) };
}

/** Makes a background response with two input items; resolves with the 32 digits of its id. */
async function storedBy({ url }: ScriptedListener): Promise<string> {
  const input = ['one', 'two'].map((content) => ({ role: 'user', content }));
  const res = await fetch(`${url}/v1/responses`, {
    method: 'POST',
    body: JSON.stringify({ model: 'tiny', input, background: true, stream: true }),
    headers: { 'content-type': 'application/json' },
  });
  // At the end of the stream it is stored.
  const [, id = ''] = /"resp_([0-9a-f]{32})"/.exec(await res.text()) ?? [];
  return id;
}

/** A list is written as OpenAI's client does: `include[]=a`. */
function queryOf(fields: Fields): string {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(fields)) {
    if (Array.isArray(value)) for (const each of value as unknown[]) query.append(`${name}[]`, String(each));
    else query.set(name, String(value));
  }
  return query.size === 0 ? '' : `?${query.toString()}`;
}

function formOf(body: Fields): FormData {
  const form = new FormData();
  for (const [name, value] of Object.entries(body)) {
    if (Buffer.isBuffer(value)) form.append(name, new Blob([new Uint8Array(value)]), 'sound.wav');
    else form.append(name, String(value));
  }
  return form;
}

/** Returns the message of an error in any vendor's shape, and the field that it names. */
function errorOf(answer: string): readonly [message: string, named: string] {
  const body = JSON.parse(answer) as { error?: unknown; message?: unknown };
  const error = body.error ?? body.message;
  if (typeof error === 'string') return [error, ''];
  const { message, param } = error as { message?: unknown; param?: unknown };
  return [String(message), String(param)];
}

/** `messages[].content` matches `messages[0].content`. */
function patternOf(name: string): RegExp {
  const [path = ''] = name.split(' = ');
  const text = path.replaceAll(/[.$]/g, String.raw`\$&`).replaceAll('[]', String.raw`(\[\d+\])?`);
  return new RegExp(`(^|[^\\w.])${text}($|[^\\w])`);
}

function withField(context: Fields, { name, value }: Field): Fields {
  const [path = '', kind] = name.split(' = ');
  const steps = [...path.matchAll(/[^.[\]]+|\[\]/g)].map(([step]) => step);
  const isPart = kind !== undefined && typeof value === 'object';
  return placed(context, isPart ? steps.slice(0, -1) : steps, value) as Fields;
}

/** Copy of `whole` with the value at the end of the steps; `[]` is the last of a list. */
function placed(whole: unknown, [step, ...rest]: readonly string[], value: unknown): unknown {
  if (step === undefined) return value;
  if (step === '[]') {
    const list = Array.isArray(whole) ? (whole as unknown[]) : [];
    return [...list.slice(0, -1), placed(list.at(-1), rest, value)];
  }
  const fields = typeof whole === 'object' && whole !== null ? (whole as Fields) : {};
  return { ...fields, [step]: placed(fields[step], rest, value) };
}

/** `sampling.top_k`, `messages[0].content`. */
function valueAt(whole: unknown, path: string): unknown {
  const steps = [...path.matchAll(/[^.[\]]+/g)].map(([step]) => step);
  return steps.reduce<unknown>((value, step) => (value as Fields | null | undefined)?.[step], whole);
}
