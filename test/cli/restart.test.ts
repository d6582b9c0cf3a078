/** `svc restart` with real daemons: what the new one takes over, what the old one still answers, what refuses. */
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import * as assert from 'uvu/assert';
import { VERSION } from '../../src/config/version.ts';
import { ControlClient } from '../../src/client/control-client.ts';
import type { Message } from '../../src/protocol/generate.ts';
import type { StatusRecord } from '../../src/protocol/records.ts';
import { SvcError } from '../../src/protocol/errors.ts';
import { assertExit } from '../support/exit.ts';
import { readyStatus, spawnDaemon } from '../support/daemon.ts';
import { configure } from '../support/home.ts';
import type { Home } from '../support/home.ts';
import { modelPath } from '../support/native-engine.ts';
import { openAiAt } from '../support/openai.ts';
import { svc } from '../support/svc.ts';
import { svcSuite } from '../support/svc-suite.ts';
import { waitFor } from '../support/wait.ts';

type Restarted = StatusRecord & {
  readonly previous: { readonly pid: number; readonly version: string; readonly killed: boolean } | null;
  readonly not_loaded: readonly { readonly model: string; readonly message: string }[];
};

const test = svcSuite('restart');

const clientOf = (home: Home): ControlClient => new ControlClient(join(home.dir, 'run', 'svc.sock'));

async function turn(home: Home, messages: readonly Message[], model: string) {
  const request = { messages: [...messages], model, max_tokens: 12, sampling: { temperature: 0 }, stop: [] };
  return await clientOf(home).generate(request).result();
}

test('a new daemon with the old settings, the same models, and the prefixes of conversations', async (context) => {
  const { home, run } = context;
  for (const [name, file] of [
    ['kept', 'tiny-llama'],
    ['pinned', 'tiny-qwen2'],
    ['asked', 'tiny-gemma'],
  ] as const)
    assertExit(await run('model', 'add', modelPath(file), '--name', name), 0);
  // The shell in which it was started had settings that the one of the restart lacks.
  const env = { SVC_LOG_LEVEL: 'debug', SVC_HTTP_ADDR: '127.0.0.1:0' };
  assertExit(await svc(['start', '--timeout', '150s'], { home, env }), 0);
  assertExit(await run('model', 'load', 'kept', '--keep-alive', '1h'), 0);
  assertExit(await run('model', 'load', 'pinned', '--pin'), 0);
  const question: Message = {
    role: 'user',
    content: 'The daemon keeps what it has computed of a long text. '.repeat(60),
  };
  const first = await turn(home, [question], 'builtin');
  await turn(home, [{ role: 'user', content: 'Hello' }], 'asked');
  const before = await clientOf(home).status();

  const restarted = await svc(['restart', '--json'], { home, env: { SVC_HTTP_ADDR: '127.0.0.1:1' } });
  assertExit(restarted, 0);
  const status = JSON.parse(restarted.stdout) as Restarted;
  assert.equal(status.previous, { pid: before.pid, version: VERSION, killed: false });
  assert.equal([status.mode, status.not_loaded], ['background', []]);
  await readyStatus(clientOf(home));
  assert.is.not(status.pid, before.pid);
  const loads = [...status.loads].sort((one, other) => one.model.localeCompare(other.model));
  assert.equal(loads, [
    { model: 'asked', briefly: true },
    { model: 'builtin', keep_alive_seconds: -1, pin: false },
    { model: 'kept', keep_alive_seconds: 3600, pin: false },
    { model: 'pinned', keep_alive_seconds: -1, pin: true },
  ]);
  assert.match(readFileSync(join(home.dir, 'state', 'daemon.log'), 'utf8'), '"level":"debug"');

  const next: Message[] = [
    { role: 'assistant', content: first.text },
    { role: 'user', content: 'Why?' },
  ];
  const { usage } = await turn(home, [question, ...next], 'builtin');
  const { input_tokens = 0 } = first.usage ?? {};
  const { cached_tokens = 0 } = usage ?? {};
  assert.ok(input_tokens > 500, `${String(input_tokens)} tokens`);
  // The answer's tokens are found only if the tokenizer splits its text as the model wrote it, which depends on the text.
  assert.ok(cached_tokens >= input_tokens, `${String(cached_tokens)} of ${String(input_tokens)}`);
});

test('past the drain timeout, what runs and what waits is told to come again; its prefix is kept', async ({
  home,
  run,
}) => {
  assertExit(await run('model', 'add', modelPath('tiny-long'), '--name', 'long'), 0);
  assertExit(await run('config', 'set', 'engine.max_sequences', '2'), 0);
  assertExit(await run('start', '--timeout', '150s'), 0);
  const asked = {
    model: 'long',
    messages: [{ role: 'user' as const, content: 'a long text of many words '.repeat(100) }],
    sampling: {},
    stop: [],
  };
  // Without an end: at temperature 0 a model with random weights soon repeats itself. Drawn at random, any text ends.
  const endless = {
    ...asked,
    max_tokens: 100_000,
    sampling: { temperature: 0 },
    format: { type: 'grammar', grammar: 'root ::= [a-z ]+ "!!!"' } as const,
  };
  let begun = 0;
  const ends = Array.from({ length: 6 }, async () => {
    for await (const event of clientOf(home).generate(endless)) if (event.type === 'text') begun++;
  }).map((end) => end.catch((error: unknown) => error));
  await waitFor(
    'text, and a queue',
    async () => begun > 50 && (await clientOf(home).health()).models.some(({ waiting }) => waiting > 0),
  );

  const restarted = await svc(['restart', '--drain-timeout', '200ms', '--json'], { home });
  assertExit(restarted, 0);
  for (const error of await Promise.all(ends)) {
    assert.instance(error, SvcError);
    const { code, retryAfterSeconds } = error as SvcError;
    assert.equal([code, retryAfterSeconds], ['NOT_READY', 1]);
  }
  const { usage } = await clientOf(home)
    .generate({ ...asked, max_tokens: 1 })
    .result();
  assert.is(usage?.cached_tokens, usage!.input_tokens - 1);
});

test('a background response goes on in the new daemon', async ({ home, run }) => {
  assertExit(await run('model', 'add', modelPath('tiny-long'), '--name', 'long'), 0);
  await run('start', '--timeout', '150s');
  const api = async () => openAiAt(`http://${String((await clientOf(home).status()).http)}`);
  const asked = { model: 'long', input: 'Hello', background: true, max_output_tokens: 600 } as const;
  const { id } = await (await api()).responses.create(asked);
  const restarted = await run('restart', '--drain-timeout', '0', '--json');
  assertExit(restarted, 0);
  const client = await api();
  const done = await waitFor('its end', async () => {
    const found = await client.responses.retrieve(id);
    return found.status === 'queued' || found.status === 'in_progress' ? null : found;
  });
  assert.ok(['completed', 'incomplete'].includes(done.status ?? ''), done.status);
  assert.ok(done.output_text.length > 0);
});

test('without a daemon it starts one; a daemon in the foreground is left alone', async ({ home, run }) => {
  const started = await run('restart', '--json');
  assertExit(started, 0);
  assert.is((JSON.parse(started.stdout) as Restarted).previous, null);
  assertExit(await run('stop'), 0);

  const daemon = await spawnDaemon(home).settled();
  const refused = await run('restart');
  assertExit(refused, 2);
  assert.match(refused.stderr, /runs in the foreground \(pid \d+\)\nhint: end it where it was started/);
  await readyStatus(daemon.client);
  daemon.kill('SIGTERM');
  await daemon.exit;
});

test('an invalid config is refused while the old daemon serves; a start that fails says why', async ({ home, run }) => {
  const config = join(home.dir, 'config', 'config.json');
  const started = JSON.parse((await run('start', '--timeout', '150s', '--json')).stdout) as StatusRecord;
  mkdirSync(join(home.dir, 'config'), { recursive: true });
  writeFileSync(config, '{ "http": { "port": "x" } }');
  const refused = await run('restart');
  assertExit(refused, 78);
  assert.is((await clientOf(home).status()).pid, started.pid);

  // Valid, but this address is not one of this machine.
  writeFileSync(config, '{ "ollama": { "listen": "192.0.2.1:11434" } }');
  const failed = await run('restart', '--json');
  assertExit(failed, 1);
  const { error } = JSON.parse(failed.stderr) as { error: { code: string; message: string; hint: string } };
  assert.match(error.message, /^the old daemon has ended, but the new one does not serve: .*192\.0\.2\.1/);
  assert.ok(error.hint.length > 0);
});

test('a key that only the old daemon had is named', async ({ home, run }) => {
  const provider = { kind: 'openai_compatible', base_url: 'http://127.0.0.1:9/v1', api_key_env: 'MINE_KEY' };
  configure(home, { providers: { mine: provider } });
  assertExit(await svc(['start', '--timeout', '150s'], { home, env: { MINE_KEY: 'sk-mine' } }), 0);
  const restarted = await run('restart');
  assertExit(restarted, 0);
  assert.match(restarted.stderr, 'the key of mine was in MINE_KEY and is missing now: set the variable and restart');
  assert.not.match(readFileSync(join(home.dir, 'state', 'daemon.json'), 'utf8'), 'sk-mine');
});

test('a daemon that does not answer is not restarted', async ({ home, run }) => {
  await run('start', '--timeout', '150s');
  const { pid } = await clientOf(home).status();
  process.kill(pid as number, 'SIGSTOP');
  try {
    const refused = await run('restart');
    assertExit(refused, 4);
    assert.match(refused.stderr, /does not answer\nhint: .*svc stop --force/);
  } finally {
    process.kill(pid as number, 'SIGCONT');
  }
  assert.ok(existsSync(join(home.dir, 'run', 'svc.sock')));
  const error = await clientOf(home)
    .load('none', new AbortController().signal)
    .next()
    .catch((thrown: unknown) => thrown);
  assert.is((error as SvcError).code, 'MODEL_NOT_FOUND');
});

test.run();
