/** Every API answers every bad request in its own shape, with its own status: against a real daemon and real engines. */
import { copyFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { addKey } from '../../../src/home/key-file.ts';
import { PUBLIC } from '../../../src/daemon/http/routes.ts';
import { LIMITS } from '../../../src/protocol/limits.ts';
import { HTTP_ROUTES } from '../../../src/protocol/routes.ts';
import { assertExit } from '../../support/exit.ts';
import { spawnDaemon, type DaemonProcess } from '../../support/daemon.ts';
import { hold } from '../../support/hold.ts';
import { configure, makeHome, type Home } from '../../support/home.ts';
import { writeInfillModel } from '../../support/infill-model.ts';
import { projectorPath } from '../../support/media-files.ts';
import { modelPath } from '../../support/native-engine.ts';
import { endServing } from '../../support/serving.ts';
import { svc } from '../../support/svc.ts';
import { waitFor } from '../../support/wait.ts';
import { statusOfLong, TRIED, type Told, type TriedApi } from './tried-apis.ts';

type Body = Readonly<Record<string, unknown>>;

let home: Home;
let daemon: DaemonProcess;
let url: string;
let key: string;

test.before(async () => {
  home = await makeHome();
  const add = async (...args: string[]): Promise<void> => {
    assertExit(await svc(['model', 'add', ...args], { home }), 0);
  };
  await add(modelPath('tiny-llama'), '--name', 'llama');
  await add(modelPath('tiny-bert'), '--name', 'vectors');
  await add(modelPath('tiny-rank'), '--name', 'ranker');
  // Another file, because an engine is a file.
  copyFileSync(modelPath('tiny-llama'), join(home.dir, 'hears.gguf'));
  await add(join(home.dir, 'hears.gguf'), '--name', 'hears', '--projector', projectorPath('whisper'));
  await writeInfillModel(join(home.dir, 'infill.gguf'));
  await add(join(home.dir, 'infill.gguf'), '--name', 'infill');
  ({ key } = await addKey(join(home.dir, 'data', 'keys.json'), 'app', 'inference'));
  await start({});
});
test.after(() => endServing({ home, daemon }));

async function start(engine: object, models: object = {}): Promise<void> {
  configure(home, { engine: { threads: 1, ...engine }, models });
  daemon = await spawnDaemon(home).settled();
  url = `http://${String((await daemon.client.status()).http)}`;
}

interface Sending {
  readonly fields?: Body;
  readonly token?: string;
  /** Sent as it is. */
  readonly raw?: Buffer;
}

async function send(
  { path, body, isForm }: TriedApi,
  { fields = {}, token = key, raw }: Sending = {},
): Promise<Response> {
  const whole = { ...body, ...fields };
  const authorization = `Bearer ${token}`;
  const json = { authorization, 'content-type': 'application/json' };
  if (isForm !== true)
    return await fetch(url + path, { method: 'POST', headers: json, body: raw ?? JSON.stringify(whole) });
  const form = new FormData();
  for (const [name, value] of Object.entries(whole)) {
    if (Buffer.isBuffer(value)) form.append(name, new Blob([new Uint8Array(value)]), 'sound.wav');
    else form.append(name, String(value));
  }
  if (raw !== undefined) form.set('file', new Blob([new Uint8Array(raw)]), 'sound.wav');
  return await fetch(url + path, { method: 'POST', headers: { authorization }, body: form });
}

/** The error of an answer, which must have this status and the API's shape. */
async function refusal(api: TriedApi, status: number, sending: Sending): Promise<Told> {
  const res = await send(api, sending);
  const text = await res.text();
  assert.is(res.status, status, `${api.name}: ${text.slice(0, 300)}`);
  assert.match(res.headers.get('content-type') ?? '', /^application\/json/);
  assert.match(res.headers.get('x-request-id') ?? '', /^[0-9a-f]{32}$/);
  return api.shape(JSON.parse(text) as Record<string, unknown>, status);
}

/** The error names the field: in its place for it, and where there is none in the message. */
function names({ message, param }: Told, field: string): void {
  assert.is(param === '' ? message.slice(0, field.length) : param, field, `${message} (${param})`);
}

test('every route that takes a request to a model is tried', () => {
  const posts = PUBLIC.filter(({ method, scope, body }) => method === 'POST' && scope === 'local' && body !== 'none');
  const paths = posts.map(({ path }) => path).filter((path) => path !== HTTP_ROUTES.ollamaShow);
  assert.equal(TRIED.map(({ path }) => path).toSorted(), paths.toSorted());
});

for (const api of TRIED) {
  test(`${api.name}: a valid request is answered`, async () => {
    const res = await send(api);
    assert.is(res.status, 200, await res.text());
  });

  test(`${api.name}: an unknown model`, async () => {
    const { message, param } = await refusal(api, 404, { fields: { model: 'nothing' } });
    assert.match(message, /nothing/);
    if (param !== '') assert.is(param, 'model');
  });

  test(`${api.name}: a wrong type, and JSON that is none`, async () => {
    names(await refusal(api, 400, { fields: api.wrong }), api.wrongParam);
    if (api.isForm !== true) await refusal(api, 400, { raw: Buffer.from('{"model":') });
  });

  test(`${api.name}: no key, and one that does not exist`, async () => {
    for (const token of ['', 'svc-wrong']) await refusal(api, 401, { token });
  });

  test(`${api.name}: a body that is too large`, async () => {
    await refusal(api, 413, {
      raw: Buffer.alloc(api.isForm === true ? LIMITS.formBytes + 1 : LIMITS.bodyBytes + 1, 32),
    });
  });

  if (api.hot !== undefined) {
    const [fields, param] = api.hot;
    test(`${api.name}: a temperature that is out of range`, async () => {
      names(await refusal(api, 400, { fields }), param);
    });
  }

  const { long: fields, tokensIn } = api;
  if (tokensIn === undefined) {
    test(`${api.name}: a text that is longer than the context, with both numbers`, async () => {
      const { message } = await refusal(api, statusOfLong(api), { fields });
      const { models } = await daemon.client.health();
      const { context_length: context } = models.find(({ id }) => id === api.body['model']) ?? {};
      const numbers = [...message.matchAll(/\d+/g)].map(([number]) => Number(number));
      // Anthropic's maximum is that of the prompt alone, without one token of the answer.
      assert.ok(numbers.includes(context ?? 0) || numbers.includes((context ?? 0) - 1), message);
      assert.ok(Math.max(...numbers) > 10_000, message);
    });
  } else {
    test(`${api.name}: a text that is longer than the context is whole`, async () => {
      const res = await send(api, { fields });
      assert.is(res.status, 200);
      assert.ok(Number(tokensIn((await res.json()) as Record<string, unknown>)) >= 20_000);
    });
  }
}

/** Reads a stream; `onText` is called with all of its text after each piece. */
async function read(res: Response, onText: (text: string) => void): Promise<{ text: string; isWhole: boolean }> {
  const decoder = new TextDecoder();
  let text = '';
  try {
    for await (const chunk of res.body as unknown as AsyncIterable<Uint8Array>) {
      text += decoder.decode(chunk, { stream: true });
      onText(text);
    }
    return { text, isWhole: true };
  } catch {
    return { text, isWhole: false };
  }
}

test('engines that crash in the middle of streams: an error event of each API, and never an end', async () => {
  const streaming = TRIED.filter(({ endless }) => endless !== undefined);
  const { models } = await daemon.client.health();
  const pidOf = ({ body }: TriedApi): number => {
    const pid = models.find(({ id }) => id === body['model'])?.pid;
    assert.type(pid, 'number');
    return pid as number;
  };
  const silent = new Map<number, number>();
  for (const pid of streaming.map(pidOf)) silent.set(pid, (silent.get(pid) ?? 0) + 1);
  const engines = [...silent.keys()];
  // An engine runs from the arrival of all requests until its last answer has begun, so that none ends before the kill.
  const held = engines.map(hold);
  const goOn = async (): Promise<void> => {
    await waitFor('all requests', async () => {
      const health = await daemon.client.health();
      return health.models.reduce((sum, { active, waiting }) => sum + active + waiting, 0) === streaming.length;
    });
    for (const each of held) each.release();
  };
  const begin = (pid: number): void => {
    const left = (silent.get(pid) ?? 0) - 1;
    silent.set(pid, left);
    if (left > 0) return;
    hold(pid);
    if ([...silent.values()].every((count) => count === 0)) for (const each of engines) process.kill(each, 'SIGKILL');
  };
  const [answers] = await Promise.all([
    Promise.all(
      streaming.map(async (api) => {
        const res = await send(api, { fields: api.endless ?? {} });
        assert.is(res.status, 200, api.name);
        let isSeen = false;
        const answer = await read(res, () => {
          if (!isSeen) begin(pidOf(api));
          isSeen = true;
        });
        return { api, ...answer };
      }),
    ),
    goOn(),
  ]);
  for (const { api, text, isWhole } of answers) {
    assert.not.match(text, api.end ?? /$^/, api.name);
    assert.not.ok(isWhole, `${api.name}: the connection is cut`);
    const last = text.trim().split('\n').at(-1) ?? '';
    const record = JSON.parse(last.replace(/^data: /, '')) as Record<string, unknown>;
    const event = record['type'] === 'error' && api.path.startsWith('/v1/responses') ? { error: record } : record;
    if (event === record) assert.match(api.shape(record, 502).message, /engine/, api.name);
    else assert.match(String(record['message']), /engine/, api.name);
  }
});

test('a full queue: BUSY with Retry-After in each API, and the others are answered', async () => {
  daemon.kill('SIGTERM');
  assert.is((await daemon.exit).code, 0);
  // A transcription's request has no limit of its own.
  await start({ max_sequences: 1, queue_limit: 1 }, { hears: { max_tokens: 2 } });
  for (const api of TRIED) {
    // Its engine is loaded.
    assert.is((await send(api)).status, 200, api.name);
    const { models } = await daemon.client.health();
    const held = models.flatMap(({ id, pid }) => (id === api.body['model'] && pid !== null ? [hold(pid)] : []));
    assert.is(held.length, 1, api.name);
    const sent = [1, 2, 3].map(() => send(api));
    try {
      const first = await Promise.race(sent);
      const text = await first.text();
      assert.is(first.status, 429, `${api.name}: ${text}`);
      assert.match(first.headers.get('retry-after') ?? '', /^\d+$/, api.name);
      api.shape(JSON.parse(text) as Record<string, unknown>, 429);
    } finally {
      for (const each of held) each.release();
    }
    const statuses = (await Promise.all(sent)).map(({ status }) => status);
    assert.equal(statuses.toSorted(), [200, 200, 429], api.name);
  }
});

test.run();
