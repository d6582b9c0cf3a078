/** LoRA adapters in a real daemon with real engines: from a file to an answer, over every API. */
import { readFileSync, truncateSync, writeFileSync } from 'node:fs';
import { copyFile } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { suite } from 'uvu';
import * as assert from 'uvu/assert';
import type { GenerateRequest, GenerateResult, TokenLogprobs } from '../../src/protocol/generate.ts';
import { given } from '../../src/protocol/given.ts';
import type { ModelAdapter, ModelMemory, ModelRecord } from '../../src/protocol/records.ts';
import { connectTo } from '../grpc/scripted.ts';
import { assertExit } from '../support/exit.ts';
import { daemonSuite, startIn, type DaemonContext } from '../support/daemon-suite.ts';
import type { DaemonProcess } from '../support/daemon.ts';
import { rejection } from '../support/errors.ts';
import { configure } from '../support/home.ts';
import { assertSure } from '../support/margin.ts';
import { modelPath } from '../support/native-engine.ts';
import { svc, type SvcResult } from '../support/svc.ts';
import { waitFor } from '../support/wait.ts';

interface Context extends DaemonContext {
  run(...args: string[]): Promise<SvcResult>;
  configure(config: object): void;
  start(): Promise<DaemonProcess>;
}

const adapterPath = (name: string): string =>
  fileURLToPath(new URL(`../../build/models/adapters/${name}.gguf`, import.meta.url));

const test: ReturnType<typeof suite<Context>> = daemonSuite<Context>('lora');
test.before.each(async (context) => {
  const { home } = context;
  context.run = async (...args) => await svc(args, { home });
  context.configure = (config) => {
    configure(home, { engine: { threads: 1 }, ...config });
  };
  context.start = async () => await startIn(context).settled();
  context.configure({});
  await done(context.run('model', 'add', modelPath('tiny-llama'), '--name', 'tiny'));
});

async function done(running: Promise<SvcResult>): Promise<string> {
  const { code, stdout, stderr } = await running;
  assert.is(code, 0, stderr);
  return stdout;
}

/** The model is sure of its answers with and without `legal`. */
const question = 'Where is the market?';
const asked = {
  model: 'tiny',
  messages: [{ role: 'user' as const, content: question }],
  max_tokens: 6,
  sampling: { temperature: 0 },
  stop: [],
};

async function answer({ client }: DaemonProcess, lora?: GenerateRequest['lora'], model = 'tiny'): Promise<string> {
  let text = '';
  for await (const event of client.generate({ ...asked, model, ...given({ lora }) })) {
    if (event.type === 'text') text += event.text;
  }
  return text;
}

/** Asserts that the text of `answer` is the same beside other requests. */
async function assertSureWith({ client }: DaemonProcess, lora: GenerateRequest['lora'] & object): Promise<void> {
  const logprobs: TokenLogprobs[] = [];
  for await (const event of client.generate({ ...asked, lora, logprobs: 2 })) {
    if (event.type === 'text') logprobs.push(...(event.logprobs ?? []));
  }
  assertSure(logprobs, JSON.stringify(lora));
}

const adaptersOf = async ({ client }: DaemonProcess, id = 'tiny'): Promise<readonly ModelAdapter[]> =>
  (await client.models()).find((model) => model.id === id)?.adapters ?? [];

/** Ids of the loaded models, without the default one. */
const enginesOf = async ({ client }: DaemonProcess): Promise<string[]> =>
  (await client.status()).models.map(({ id }) => id).filter((id) => id !== 'builtin');

const addAdapter = (run: Context['run'], file: string, name: string): Promise<string> =>
  done(run('model', 'add', '--adapter-of', 'tiny', '--name', name, file));

test('a registered adapter is listed, and a request chooses it with a scale', async ({ run, start }) => {
  const daemon = await start();
  const base = await answer(daemon);
  const weightsOf = async (): Promise<number> => {
    const { memory } = JSON.parse(await done(run('model', 'show', 'tiny', '--json'))) as {
      memory: readonly ModelMemory[];
    };
    return memory[0]?.devices[0]?.weights_bytes ?? 0;
  };
  const before = await weightsOf();
  const added = await addAdapter(run, adapterPath('llama-attention'), 'legal');
  assert.match(added, /^added the adapter legal of tiny \(.*\); try it: svc run -m tiny --lora legal "Hello"$/m);
  const json = await done(
    run('model', 'add', '--adapter-of', 'tiny', '--name', 'style', '--json', adapterPath('llama-forward')),
  );
  const { path, size_bytes, ...others } = JSON.parse(json) as ModelAdapter;
  assert.equal(others, { id: 'style', model: 'tiny' });
  assert.is(readFileSync(path).length, size_bytes);
  assert.ok((await weightsOf()) > before, 'they are part of the estimate');

  const legal = await answer(daemon, [{ id: 'legal', scale: 1 }]);
  assert.is.not(legal, base);
  assert.is(await answer(daemon, [{ id: 'LEGAL', scale: 1 }]), legal, 'the same again');
  assert.is(await answer(daemon, [{ id: 'legal', scale: 0 }]), base);
  assert.is(await answer(daemon, []), base);
  assert.is(await answer(daemon), base);
  const half = await answer(daemon, [{ id: 'legal', scale: 0.5 }]);
  const both = [
    { id: 'legal', scale: 1 },
    { id: 'style', scale: 0.5 },
  ];
  const all = [base, legal, half, await answer(daemon, both)];
  assert.is(new Set(all).size, all.length);
  for (const lora of [[], [{ id: 'legal', scale: 1 }]]) await assertSureWith(daemon, lora);
  const together = await Promise.all([answer(daemon, [{ id: 'legal', scale: 1 }]), answer(daemon)]);
  assert.equal(together, [legal, base]);
  assert.equal(await enginesOf(daemon), ['tiny']);

  assert.match(await done(run('model', 'show', 'tiny')), /^adapter: +legal \(.*\)\nadapter: +style \(.*\)$/m);
  const { models } = JSON.parse(await done(run('model', 'list', '--json'))) as { models: ModelRecord[] };
  assert.equal(
    models.find(({ id }) => id === 'tiny')?.adapters?.map(({ id }) => id),
    ['legal', 'style'],
  );
});

interface Reply {
  readonly choices?: readonly [{ readonly message: { readonly content: string } }];
  readonly error?: { readonly message: string; readonly param: string };
}

/** Posts a chat completion. */
async function post({ client }: DaemonProcess, lora: unknown): Promise<Reply & { readonly status: number }> {
  const { http } = await client.status();
  const { sampling, ...same } = asked;
  const body = JSON.stringify({ ...same, ...sampling, lora });
  const headers = { 'content-type': 'application/json' };
  const reply = await fetch(`http://${String(http)}/v1/chat/completions`, { method: 'POST', headers, body });
  return { ...((await reply.json()) as Reply), status: reply.status };
}

/** Starts a daemon whose model has two adapters. */
async function startWithTwo({ run, start }: Pick<Context, 'run' | 'start'>) {
  await addAdapter(run, adapterPath('llama-forward'), 'style');
  await addAdapter(run, adapterPath('llama-attention'), 'legal');
  const daemon = await start();
  const base = await answer(daemon);
  const legal = await answer(daemon, [{ id: 'legal', scale: 1 }]);
  assert.is.not(legal, base);
  return { daemon, base, legal };
}

test('over HTTP an adapter is also named by its place, and a wrong one is a 400', async ({ run, start }) => {
  const { daemon, base, legal } = await startWithTwo({ run, start });
  const textOf = async (lora: unknown) => (await post(daemon, lora)).choices?.[0].message.content;
  assert.is(await textOf([{ id: 'legal', scale: 1 }]), legal);
  assert.is(await textOf([{ id: 1, scale: 1 }]), legal);
  assert.is(await textOf([{ id: 1, scale: 0 }]), base);
  const twice = [
    { id: 'legal', scale: 1 },
    { id: 1, scale: 2 },
  ];
  for (const [lora, param, message] of [
    [[{ id: 'gone', scale: 1 }], 'lora', /lora\[0\]\.id is "gone", which tiny does not have/],
    [[{ id: 2, scale: 1 }], 'lora', /lora\[0\]\.id is "2", which tiny does not have/],
    [twice, 'lora', /lora\[1\]\.id is legal, which is there twice/],
    [[{ id: 'legal', scale: 'x' }], 'lora[0].scale', /must be number/],
    [[{ id: 'legal', scale: 1e9 }], 'lora[0].scale', /must be at most 100/],
    ['legal', 'lora', /must be array/],
  ] as const) {
    const { status, error } = await post(daemon, lora);
    assert.equal([status, error?.param], [400, param], JSON.stringify(lora));
    assert.match(error?.message ?? '', message);
  }
  const { http } = await daemon.client.status();
  const listed = (await (await fetch(`http://${String(http)}/v1/models/tiny`)).json()) as { adapters: object[] };
  assert.equal(
    listed.adapters.map((each) => Object.keys(each)),
    [
      ['id', 'size_bytes'],
      ['id', 'size_bytes'],
    ],
    'no paths',
  );
  assert.is(await textOf([{ id: 'legal', scale: 1 }]), legal, 'the engine is alive');
});

test('gRPC and svc run take adapters, too', async ({ run, start }) => {
  const { daemon, base, legal } = await startWithTwo({ run, start });
  const rpc = connectTo((await daemon.client.status()).grpc ?? '');
  let text = '';
  const wanted = { ...asked, lora: [{ id: 'legal', scale: 1 }] };
  for await (const event of rpc.stream('Inference/Generate', wanted)) {
    text += (event as { text?: { text: string } | null }).text?.text ?? '';
  }
  assert.is(text, legal);
  const { models } = (await rpc.unary('Runtime/ListModels')) as { models: ModelRecord[] };
  rpc.close();
  const tiny = models.find(({ id }) => id === 'tiny');
  assert.equal(
    tiny?.adapters?.map(({ id }) => id),
    ['style', 'legal'],
  );

  const typed = [
    'run',
    '-m',
    'tiny',
    '--temperature',
    '0',
    '--max-tokens',
    String(asked.max_tokens),
    '--json',
    question,
  ];
  const told = async (...flags: string[]): Promise<string> =>
    (JSON.parse(await done(run(...typed, ...flags))) as GenerateResult).text;
  assert.is(await told('--lora', 'legal'), legal);
  assert.is(await told('--lora', 'legal=0', '--lora', 'style=0.0'), base);
  for (const [value, message] of [
    ['legal=x', /the scale of --lora must be a number from -100 to 100/],
    ['legal=', /the scale of --lora must be a number/],
    ['=1', /lora\[0\]\.id must have a length of at least 1/],
    ['gone', /lora\[0\]\.id is "gone"[\s\S]*it has style, legal/],
  ] as const) {
    const { code, stderr } = await run('run', '-m', 'tiny', '--lora', value, 'Hi');
    assert.is(code, 2, stderr);
    assert.match(stderr, message);
  }
});

test('a name of the config and a Modelfile choose adapters for requests that say nothing', async ({
  home,
  run,
  configure,
  start,
}) => {
  await addAdapter(run, adapterPath('llama-attention'), 'legal');
  configure({ models: { lawyer: { from: 'tiny', lora: [{ id: 'legal', scale: 1 }] } } });
  const daemon = await start();
  const base = await answer(daemon);
  const legal = await answer(daemon, [{ id: 'legal', scale: 1 }]);
  assert.is(await answer(daemon, undefined, 'lawyer'), legal);
  assert.is(await answer(daemon, [], 'lawyer'), base);
  assert.equal(await enginesOf(daemon), ['tiny']);

  await copyFile(adapterPath('llama-forward'), join(home.dir, 'style.gguf'));
  const modelfile = join(home.dir, 'Modelfile');
  writeFileSync(modelfile, 'FROM tiny\nADAPTER ./style.gguf\nPARAMETER num_predict 16\n');
  await done(run('model', 'create', 'stylist', '-f', modelfile));
  assert.is(await answer(daemon, undefined, 'stylist'), await answer(daemon, [{ id: 'style', scale: 1 }]));
  const [, style] = await adaptersOf(daemon);
  const printed = await done(run('model', 'show', 'stylist', '--modelfile'));
  assert.is(printed, `FROM tiny\nPARAMETER num_predict 16\nADAPTER ${String(style?.path)}\n`);

  writeFileSync(modelfile, `FROM tiny\nADAPTER ${adapterPath('qwen2')}\n`);
  const other = await run('model', 'create', 'other', '-f', modelfile);
  assertExit(other, 65);
  assert.match(other.stderr, /is an adapter of another base: its architecture is "qwen2", the model's "llama"/);
  configure({ models: { lawyer: { from: 'tiny', lora: [{ id: 'legal', scale: 'x' }] } } });
  const wrong = await rejection(() => daemon.client.reload(), 'CONFIG_INVALID');
  assert.match(wrong.message, /models\.lawyer\.lora\.0\.scale" must be number/);
});

test('an adapter that cannot be used is refused, or named, and requests without it are answered', async ({
  home,
  run,
  start,
}) => {
  for (const [file, message] of [
    [adapterPath('qwen2'), /another base/],
    [modelPath('tiny-llama'), /is not an adapter/],
    [join(home.dir, 'config', 'config.json'), /is not a GGUF file/],
  ] as const) {
    const { code, stderr } = await run('model', 'add', '--adapter-of', 'tiny', file);
    assert.is(code, 65, stderr);
    assert.match(stderr, message);
  }
  const asModel = await run('model', 'add', adapterPath('llama-attention'));
  assertExit(asModel, 65);
  assert.match(asModel.stderr, /svc model add --adapter-of MODEL/);

  await addAdapter(run, adapterPath('llama-attention'), 'legal');
  await addAdapter(run, adapterPath('llama-forward'), 'style');
  const daemon = await start();
  const base = await answer(daemon);
  const [legal] = await adaptersOf(daemon);
  truncateSync(legal?.path ?? '', 1000);
  const refused = await rejection(() => answer(daemon, [{ id: 'legal', scale: 1 }]), 'INVALID_REQUEST');
  assert.is(refused.param, 'lora');
  assert.match(refused.message, /lora\[0\]\.id is legal, which is damaged: its file has changed/);
  assert.match((await adaptersOf(daemon))[0]?.error ?? '', /^is damaged/);
  assert.is(await answer(daemon), base);
  assert.is.not(await answer(daemon, [{ id: 'style', scale: 1 }]), base);

  // The damaged file has the same size, so that only the engine sees it.
  const [, style] = await adaptersOf(daemon);
  const bytes = readFileSync(style?.path ?? '');
  bytes.write('!', bytes.indexOf('lora_a'));
  writeFileSync(style?.path ?? '', bytes);
  await done(run('model', 'unload', 'tiny'));
  const unread = await rejection(() => answer(daemon, [{ id: 'style', scale: 1 }]), 'INVALID_REQUEST');
  assert.is(unread.param, 'lora');
  assert.is(await answer(daemon), base);
  assert.ok((await adaptersOf(daemon))[1]?.error, 'what the load has found');
});

test('a running daemon loads a kept model again when its adapters change', async ({ run, start }) => {
  const daemon = await start();
  const pidOf = async (): Promise<number | undefined> =>
    (await daemon.client.models()).find(({ id }) => id === 'tiny')?.loaded?.pid;
  await done(run('model', 'load', 'tiny'));
  const first = await pidOf();
  await addAdapter(run, adapterPath('llama-attention'), 'legal');
  const second = await waitFor('a new engine', async () => {
    const pid = await pidOf();
    return pid !== first && pid;
  });
  const base = await answer(daemon);
  assert.is.not(await answer(daemon, [{ id: 'legal', scale: 1 }]), base);
  assert.is(await pidOf(), second);

  const asked = await run('model', 'rm', '--adapter', 'legal', 'tiny');
  assertExit(asked, 2);
  assert.match(asked.stderr, /confirm it: svc model rm --yes --adapter legal tiny/);
  await done(run('model', 'rm', '--yes', '--adapter', 'legal', 'tiny'));
  assert.equal(await adaptersOf(daemon), []);
  await rejection(() => answer(daemon, [{ id: 'legal', scale: 1 }]), 'INVALID_REQUEST');
  assert.is(await answer(daemon), base);
  const gone = await run('model', 'rm', '--yes', '--adapter', 'legal', 'tiny');
  assertExit(gone, 2);
  assert.match(gone.stderr, /tiny has no adapter "legal"/);
});

test.run();
