/** A model trained for 131,072 tokens, without any setting: long prompts just work, and short ones cost little. */
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import type { DoctorRecord } from '../../src/protocol/doctor.ts';
import { assertExit } from '../support/exit.ts';
import { spawnDaemon, type DaemonProcess } from '../support/daemon.ts';
import { configure, makeHome, type Home } from '../support/home.ts';
import { modelPath } from '../support/native-engine.ts';
import { svc } from '../support/svc.ts';
import { waitFor } from '../support/wait.ts';

const TRAINED = 131_072;
const FIRST_CELLS = 8192;

let home: Home;
let daemon: DaemonProcess;
let base: string;

test.before(async () => {
  home = await makeHome();
  await svc(['model', 'add', modelPath('tiny-long'), '--name', 'long'], { home });
  daemon = await spawnDaemon(home).settled();
  base = `http://${String((await daemon.client.status()).http)}`.replace('http://http://', 'http://');
});
test.after(async () => {
  daemon.kill('SIGTERM');
  await daemon.exit;
  await home.remove();
});

interface Answer {
  readonly choices?: readonly { readonly finish_reason: string }[];
  readonly usage?: { readonly prompt_tokens: number; readonly completion_tokens: number };
  readonly error?: { readonly code: string; readonly message: string; readonly hint?: string; readonly param?: string };
  readonly data?: readonly { readonly id: string; readonly max_model_len: number }[];
}

async function chat(words: number, body: object = {}, key?: string): Promise<{ status: number; json: Answer }> {
  const content = 'the river runs under the old bridge '.repeat(Math.ceil(words / 7));
  const response = await fetch(`${base}/v1/chat/completions`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', ...(key === undefined ? {} : { authorization: `Bearer ${key}` }) },
    body: JSON.stringify({
      model: 'long',
      messages: [{ role: 'user', content }],
      max_tokens: 4,
      temperature: 0,
      ...body,
    }),
  });
  return { status: response.status, json: (await response.json()) as Answer };
}

/** Allocated cells, longest context and type of the cache. */
async function engine(): Promise<readonly unknown[]> {
  const { models } = await daemon.client.health();
  const found = models.find(({ id }) => id === 'long');
  return [found?.kv_cells_total, found?.context_length, found?.cache_type];
}

test('a prompt of more than 10,000 tokens works without any setting, and only then takes cells', async () => {
  assert.is((await chat(20)).status, 200);
  assert.equal(await engine(), [FIRST_CELLS, TRAINED, 'f16']);

  const { status, json } = await chat(10_000);
  assert.is(status, 200);
  assert.ok((json.usage?.prompt_tokens ?? 0) > 10_000);
  assert.is(json.usage?.completion_tokens, 4);
  assert.equal(await engine(), [2 * FIRST_CELLS, TRAINED, 'f16']);

  await svc(['model', 'unload', 'long'], { home });
  assert.is((await chat(20)).status, 200);
  assert.equal(await engine(), [FIRST_CELLS, TRAINED, 'f16']);
});

test('the context that is shown is the one that requests have', async () => {
  await chat(20);
  const listed = (await (await fetch(`${base}/v1/models`)).json()) as Answer;
  assert.is(listed.data?.find(({ id }) => id === 'long')?.max_model_len, TRAINED);
  const metrics = await (await fetch(`${base}/metrics`)).text();
  assert.match(metrics, /^svc_context_tokens\{model="long"\} 131072$/m);
  for (const args of [['ps'], ['status'], ['model', 'list'], ['model', 'show', 'long']]) {
    assert.match((await svc(args, { home })).stdout, /131,?072/, args.join(' '));
  }
});

test('a prompt beyond the trained length is refused with both numbers, and the hint fits', async () => {
  const { status, json } = await chat(140_000);
  assert.is(status, 400);
  assert.is(json.error?.code, 'context_length_exceeded');
  assert.match(json.error?.message ?? '', /context length is 131072 tokens, and the prompt has .*\d{5,6},/);
  assert.match(json.error?.hint ?? '', /was trained for this length/);
});

test('a request for a longer context than the trained one is refused with both numbers', async () => {
  const { status, json } = await chat(20, { context_length: TRAINED + 1 });
  assert.equal([status, json.error?.param], [400, 'context_length']);
  assert.is(json.error?.message, 'context_length is 131073, but long was trained for 131072 tokens');
  assert.match(json.error?.hint ?? '', /ask for at most 131072/);
  assert.is((await chat(20, { context_length: TRAINED })).status, 200);

  const load = await svc(['model', 'load', 'builtin', '--context', '4096'], { home });
  assertExit(load, 2);
  assert.match(load.stderr, /context_length is 4096, but builtin was trained for 2048 tokens/);
  assertExit(await svc(['model', 'load', 'builtin', '--context', '2048'], { home }), 0);
});

test('a configured context longer than the trained one is used, with a warning in the log and in doctor', async () => {
  const settings = { models: { far: { from: 'builtin', context_length: 4096 } } };
  configure(home, settings);
  await daemon.client.reload();
  assert.is((await chat(20, { model: 'far', context_length: 4096 })).status, 200);
  assert.is((await chat(20, { model: 'far', context_length: 4097 })).status, 400);
  const warning = await waitFor('the warning', () =>
    daemon.log.find(({ msg }) => msg === 'the configured context is longer than the model was trained for'),
  );
  assert.equal([warning.level, warning['context_length'], warning['trained_context_length']], ['warn', 4096, 2048]);
  const { checks } = JSON.parse((await svc(['doctor', '--offline', '--json'], { home })).stdout) as DoctorRecord;
  const store = checks.find(({ name }) => name === 'model_store');
  assert.is(store?.status, 'warn');
  assert.match(store?.detail ?? '', /far: the config sets a context of 4096, it was trained for 2048 tokens/);
});

test('a key without the scope admin may send a long prompt, but not ask for a context', async () => {
  const { stdout } = await svc(['key', 'add', 'guest'], { home });
  const key = stdout.trim();
  assert.is((await chat(9000, {}, key)).status, 200);
  assert.is((await chat(20, { context_length: TRAINED }, key)).status, 200);
});

test.run();
