/**
 * A unique prompt and key enter the daemon over every interface, with the log at level trace, while engines crash and
 * the daemon is killed. Then every output channel is searched for them.
 */
import { randomBytes } from 'node:crypto';
import { mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { connect } from 'node:net';
import { once } from 'node:events';
import { join } from 'node:path';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { ControlClient } from '../../src/client/control-client.ts';
import { LogFile } from '../../src/log/log-file.ts';
import { parseLogLine } from '../../src/log/format.ts';
import type { StatusRecord } from '../../src/protocol/records.ts';
import { HTTP_ROUTES } from '../../src/protocol/routes.ts';
import { startUpstream } from '../backends/cloud/upstream.ts';
import { ask, type To } from '../http/ask.ts';
import { assertExit } from '../support/exit.ts';
import { spawnDaemon, type DaemonProcess } from '../support/daemon.ts';
import { hold } from '../support/hold.ts';
import { makeHome, type Home } from '../support/home.ts';
import { modelPath } from '../support/native-engine.ts';
import { spawnSvc, svc, type SvcOptions } from '../support/svc.ts';
import { seenOf } from '../support/proc.ts';
import { waitFor } from '../support/wait.ts';
import { tellResponses } from './canary-responses.ts';
import { messagesBodies } from './messages-bodies.ts';
import { tellOllama, tellRankers, tellTokenizers } from './tell-apis.ts';

const PROMPT = `canary-prompt-${randomBytes(8).toString('hex')}`;
const KEY = `sk-canary-${randomBytes(8).toString('hex')}`;
/** As base64, in which no hyphen may stand. */
const DATA = PROMPT.replaceAll('-', '');
const SECRETS = [PROMPT, KEY, DATA] as const;
const CHAT = HTTP_ROUTES.chatCompletions;

const test = suite<{ home: Home }>('canary');
let daemon: DaemonProcess | undefined;
test.before.each(async (context) => {
  context.home = await makeHome();
});
test.after.each(async ({ home }) => {
  if (daemon !== undefined) {
    daemon.kill('SIGKILL');
    await daemon.exit;
    daemon = undefined;
  }
  await svc(['stop', '--force'], { home });
  await home.remove();
});

/** A key in the environment: the daemon needs it for its providers, no other process may have it. */
const ENVIRONMENT = {
  SVC_LOG_LEVEL: 'trace',
  OPENAI_API_KEY: KEY,
  SOME_ACCESS_TOKEN: KEY,
  HTTPS_PROXY: `http://user:${KEY}@127.0.0.1:9`,
  UNRELATED: PROMPT,
};

function expectNone(channel: string, text: string): void {
  for (const secret of SECRETS) {
    const at = text.indexOf(secret);
    if (at !== -1) assert.unreachable(`${channel} contains a secret: …${text.slice(Math.max(0, at - 200), at + 80)}…`);
  }
}

/** Searches every file of the home: log, rotated logs, state, stderr of a crash. */
function searchFiles(home: Home): number {
  const files = readdirSync(home.dir, { recursive: true, withFileTypes: true }).filter((entry) => entry.isFile());
  for (const file of files) expectNone(file.name, readFileSync(join(file.parentPath, file.name), 'latin1'));
  return files.length;
}

function searchProcess(pid: number, isDaemon: boolean): void {
  if (process.platform !== 'linux') return;
  expectNone(`the command line of ${String(pid)}`, seenOf(pid, 'cmdline'));
  expectNone(`the title of ${String(pid)}`, seenOf(pid, 'comm'));
  if (!isDaemon) expectNone(`the environment of ${String(pid)}`, seenOf(pid, 'environ'));
}

/** Searches the output of commands about the daemon. */
async function searchCommands(home: Home, env: SvcOptions['env'] = ENVIRONMENT): Promise<void> {
  for (const args of [
    ['status', '--json'],
    ['health', '--json'],
    ['health', '--source', 'socket'],
    ['doctor', '--json'],
    ['model', 'list', '--json'],
    ['provider', 'list', '--json'],
    ['version', '--json'],
    ['logs', '--tail', '100000'],
  ]) {
    const { stdout, stderr } = await svc(args, { home, env });
    expectNone(`svc ${args.join(' ')}`, stdout + stderr);
  }
}

const messages = [{ role: 'user', content: PROMPT }];
const answered = { messages: [{ role: 'system', content: PROMPT }, ...messages], max_tokens: 2 };
const asked = { messages, max_tokens: 2, sampling: {}, stop: [PROMPT] };

/** Pictures and sounds as OpenAI's clients send them. */
const PARTS: readonly object[] = [
  { type: 'image_url', image_url: { url: `data:image/png;base64,${DATA}` } },
  { type: 'image_url', image_url: { url: `https://a.example/${PROMPT}.png` } },
  { type: 'image_url', image_url: { url: PROMPT } },
  { type: 'input_audio', input_audio: { data: DATA, format: 'wav' } },
  { type: 'input_audio', input_audio: { data: DATA, format: PROMPT } },
];
const TOOL = { type: 'function', function: { name: 'look', description: PROMPT, parameters: { type: 'object' } } };
const TOOL_TURNS: readonly object[] = [
  {
    role: 'assistant',
    content: null,
    tool_calls: [{ id: 'a', type: 'function', function: { name: 'look', arguments: JSON.stringify({ at: PROMPT }) } }],
  },
  { role: 'tool', content: `${PROMPT} ${KEY}`, tool_call_id: 'a' },
];

/** Sends valid and invalid requests with the secrets in each place that a client controls. */
async function tellEverything(http: To, control: To): Promise<void> {
  const headers = {
    authorization: `Bearer ${KEY}`,
    'x-api-key': KEY,
    'x-goog-api-key': KEY,
    cookie: `session=${KEY}`,
    'user-agent': PROMPT,
    referer: `http://localhost/${KEY}`,
    'x-request-id': KEY,
  };
  const bodies: readonly (object | string)[] = [
    answered,
    { ...answered, stream: true },
    { ...answered, stop: [PROMPT], user: KEY, api_key: KEY, metadata: { key: KEY } },
    { ...answered, temperature: PROMPT },
    { ...answered, max_tokens: KEY },
    { ...answered, stop: 7, tools: PROMPT },
    { ...answered, response_format: { type: PROMPT } },
    { messages: [{ role: PROMPT, content: KEY }] },
    { messages: PROMPT },
    ...PARTS.map((part) => ({ messages: [{ role: 'user', content: [{ type: 'text', text: PROMPT }, part] }] })),
    { ...answered, messages: [...messages, ...TOOL_TURNS] },
    { ...answered, tools: [TOOL], messages: [...messages, ...TOOL_TURNS] },
    { ...answered, messages: [...messages, { role: 'tool', content: PROMPT, tool_call_id: 7 }] },
    { messages: [{ role: 'user', content: `${PROMPT} `.repeat(20_000) }] },
    { [KEY]: PROMPT, messages },
    `{"messages": [{"role": "user", "content": "${PROMPT}`,
    `${PROMPT} ${KEY}`,
  ];
  const type = { 'content-type': 'application/json' };
  for (const body of bodies) {
    await ask(http, CHAT, { headers: { ...type, ...headers }, method: 'POST', body });
    await ask(http, HTTP_ROUTES.runtimeGenerate, { headers: { ...type, ...headers }, method: 'POST', body });
    await ask(control, HTTP_ROUTES.runtimeGenerate, { headers: type, method: 'POST', body });
  }
  await ask(control, HTTP_ROUTES.runtimeGenerate, { body: asked });
  const secrets = { prompt: PROMPT, key: KEY, data: DATA };
  for (const body of messagesBodies(secrets)) await ask(http, HTTP_ROUTES.messages, { headers, body });
  await tellRankers(http, headers, secrets);
  await tellTokenizers(http, headers, secrets);
  await tellOllama(http, headers, secrets);
  await tellResponses(http, headers, SECRETS);
  for (const path of [`${CHAT}?key=${KEY}`, `/v1/models/${KEY}`, `/${PROMPT}`, `/readyz/${KEY}`, `/readyz?${PROMPT}`]) {
    await ask(http, path, { headers });
    await ask(http, path, { headers, body: answered });
    await ask(control, path, { headers });
  }
  await ask(http, '/livez', { headers: { host: `${PROMPT}.example` } });
  await ask(http, CHAT, { headers: { origin: `http://${KEY}.example` }, body: answered });
  await ask(http, CHAT, { headers: { ...headers, 'content-type': `text/${KEY}` }, body: PROMPT });
  for (const raw of [
    `${KEY} / HTTP/1.1\r\n\r\n`,
    `GET / HTTP/1.1\r\n${PROMPT}\r\n\r\n`,
    `GET /${KEY} HTTP/9\r\n\r\n`,
  ]) {
    await sendRaw(http, raw);
  }
  await sendRaw(http, `POST ${CHAT} HTTP/1.1\r\nhost: 127.0.0.1\r\n${KEY}: ${'x'.repeat(40_000)}\r\n\r\n`);
}

async function sendRaw(to: To, text: string): Promise<void> {
  const socket = 'port' in to ? connect(to.port, '127.0.0.1') : connect(to.socketPath);
  socket.on('error', () => undefined);
  socket.end(text);
  socket.resume();
  await once(socket, 'close');
}

/** Waits for the engine process, other than `gone`, whose exit the daemon may not have noticed yet. */
async function engineOf(client: ControlClient, gone?: number): Promise<number> {
  return await waitFor('an engine', async () => {
    const { models } = await client.status();
    return models.find(({ state, pid }) => state === 'loaded' && pid !== gone)?.pid;
  });
}

/** Runs a generation until its first text, then calls `harm`. */
async function crashWhileGenerating(running: DaemonProcess, harm: () => void): Promise<void> {
  const request = { messages: [{ role: 'user' as const, content: PROMPT }], sampling: {}, stop: [], max_tokens: 5000 };
  try {
    let harmed = false;
    for await (const event of running.client.generate(request)) {
      if (event.type === 'start' && !harmed) {
        harmed = true;
        harm();
      }
    }
  } catch {
    // Other tests check how it ends; here only the output channels matter.
  }
}

test('in the foreground: requests of every kind, crashes of the engine and of the daemon leak nothing', async ({
  home,
}) => {
  await svc(['model', 'add', modelPath('tiny-rank'), '--name', 'ranker'], { home });
  daemon = await spawnDaemon(home, { env: ENVIRONMENT }).settled();
  const { http } = await daemon.client.status();
  const port = Number(http?.split(':').at(-1));
  const control = { socketPath: daemon.socketPath };
  await tellEverything({ port }, control);

  let gone: number | undefined;
  for (const signal of ['SIGSEGV', 'SIGABRT'] as const) {
    const pid = await engineOf(daemon.client, gone);
    searchProcess(pid, false);
    await crashWhileGenerating(daemon, () => process.kill(pid, signal));
    gone = pid;
  }
  searchProcess(await engineOf(daemon.client, gone), false);
  searchProcess(daemon.pid, true);
  await searchCommands(home);
  const health = await ask({ port }, '/v1/runtime/health');
  expectNone('health', health.text);
  await crashWhileGenerating(daemon, () => daemon?.kill('SIGKILL'));
  await daemon.exit;

  expectNone('standard error', daemon.stray.join('\n') + JSON.stringify(daemon.log));
  assert.ok(daemon.log.some(({ msg }) => msg === 'engine ended'));
  assert.ok(daemon.log.filter(({ msg }) => msg === 'request failed').length > 20);
  assert.ok(searchFiles(home) > 1);
  await searchCommands(home);
});

test('in the background: command line, standard input and invalid settings leak nothing', async ({ home }) => {
  const env = ENVIRONMENT;
  const options = { home, env };
  assertExit(await svc(['start', '--timeout', '150s'], options), 0);
  // While its engine is stopped, the command gets no answer and does not end.
  const engine = await engineOf(new ControlClient(join(home.dir, 'run', 'svc.sock')));
  const held = hold(engine);
  const run = spawnSvc(['run', '-s', PROMPT, '--max-tokens', '50', '--stop', KEY, PROMPT], options);
  const { pid } = run.child as { pid: number };
  if (process.platform === 'linux') {
    // The prompt is in the process arguments until the command has started, but not while it waits.
    await waitFor('the title', () => seenOf(pid, 'cmdline').startsWith('svc run'));
    expectNone('the command line', seenOf(pid, 'cmdline'));
  }
  held.release();
  expectNone('svc run', (await run.result).stderr);
  await svc(['run', '--max-tokens', '2', '-'], { ...options, input: `${PROMPT} ${KEY}` });
  for (const args of [
    ['run', '--temperature', '7000', PROMPT],
    ['run', '--json', '--timeout', '1ms', PROMPT],
  ]) {
    expectNone(args.join(' ').slice(0, 20), (await svc(args, options)).stderr);
  }

  const status = JSON.parse((await svc(['status', '--json'], options)).stdout) as StatusRecord;
  searchProcess(status.pid as number, true);
  for (const model of status.models) if (model.pid !== null) searchProcess(model.pid, false);
  searchFiles(home);

  // Secrets stand next to the invalid settings.
  mkdirSync(join(home.dir, 'config'), { recursive: true });
  const config = join(home.dir, 'config', 'config.json');
  for (const text of [
    `{"http": {"port": "${KEY}"}}`,
    `{"http": {"host": ["${KEY}"]}}`,
    `{"providers": {"api_key": "${KEY}"}}`,
    `{"log": {"level": "${KEY}"}}`,
    `{"models": {"dir": "${KEY}"}}`,
    `{"a": "${KEY}`,
    KEY,
  ]) {
    writeFileSync(config, text);
    for (const args of [['serve'], ['doctor', '--json'], ['model', 'list']]) {
      const { stdout, stderr, code } = await svc(args, options);
      if (args[0] !== 'model') assert.is.not(code, 0);
      expectNone(`svc ${args.join(' ')} with ${text.slice(0, 12)}`, stdout + stderr);
    }
  }
  writeFileSync(config, '{}');
  await svc(['stop'], options);
  assert.ok(searchFiles(home) > 1);
});

test('a provider key that is stored, sent and refused appears nowhere else', async ({ home }) => {
  const seen: (string | undefined)[] = [];
  const upstream = await startUpstream(async (turn) => {
    seen.push(turn.request.headers.authorization);
    // As some providers do, quotes the key and the prompt.
    const message = `the key ${KEY} is not good for ${PROMPT}`;
    if (seen.length > 2) turn.json(401, { error: { message, code: KEY } });
    else {
      await turn.event({ choices: [{ index: 0, delta: { content: 'Hi' }, finish_reason: 'stop' }] });
      await turn.event({ error: { message, code: KEY } });
      turn.reset();
    }
  });
  // An environment without the key: a key given to svc must be only in its file.
  const options = { home, env: { SVC_LOG_LEVEL: 'trace' } };
  try {
    const set = ['provider', 'set', 'mine', '--base-url', `${upstream.url}/v1`, '--default-model', 'small'];
    const setting = spawnSvc([...set, '--api-key-stdin'], { ...options, input: `${KEY}\n` });
    const told = await setting.result;
    expectNone('svc provider set', told.stdout + told.stderr);
    assertExit(await svc(['start', '--timeout', '150s'], options), 0);
    for (const args of [
      ['run', '--provider', 'mine', PROMPT],
      ['run', '--provider', 'mine', '--json', PROMPT],
      ['run', '--provider', 'mine', '--json', PROMPT],
      ['provider', 'test', 'mine', '--json'],
      ['provider', 'models', 'mine'],
      ['config', 'show', '--origin'],
      ['config', 'set', 'providers.mine.api_key', KEY],
      ['provider', 'set', 'mine', '--api-key-env', KEY],
      ['provider', 'set', 'mine', '--base-url', `https://${KEY}@example.com`],
    ]) {
      const { stdout, stderr } = await svc(args, options);
      for (const text of [stdout, stderr])
        assert.not.ok(text.includes(KEY), `svc ${args.slice(0, 3).join(' ')}: ${text}`);
    }
    const running = JSON.parse((await svc(['status', '--json'], options)).stdout) as StatusRecord;
    const body = { model: 'mine/m', input: [PROMPT] };
    const refused = await ask({ port: Number(running.http?.split(':').at(-1)) }, '/v1/embeddings', { body });
    assert.is(refused.status, 502);
    assert.not.ok(refused.text.includes(KEY), refused.text);
    assert.ok(seen.length > 3 && seen.every((header) => header === `Bearer ${KEY}`));
    const status = JSON.parse((await svc(['status', '--json'], options)).stdout) as StatusRecord;
    // The key is in no environment, not even in that of the daemon.
    for (const pid of [status.pid, ...status.models.map((model) => model.pid)]) {
      if (pid !== null) searchProcess(pid, false);
    }
    const port = Number(status.http?.split(':').at(-1));
    for (const path of ['/metrics', '/v1/runtime/health', '/readyz?verbose']) {
      expectNone(path, (await ask({ port }, path)).text);
    }
    await searchCommands(home, options.env);
    const credentials = join(home.dir, 'data', 'credentials.json');
    assert.match(readFileSync(credentials, 'utf8'), KEY);
    await svc(['stop'], options);
    rmSync(credentials);
    assert.ok(searchFiles(home) > 1);
  } finally {
    await upstream.close();
  }
});

test('each log line of a request has its id', async ({ home }) => {
  daemon = await spawnDaemon(home, { env: { SVC_LOG_LEVEL: 'debug' } }).settled();
  const { http } = await daemon.client.status();
  const to = { port: Number(http?.split(':').at(-1)) };
  const answers = [
    await ask(to, CHAT, { body: answered }),
    await ask(to, CHAT, { body: { messages: 7 } }),
    await ask(to, '/nothing'),
  ];
  const ids = answers.map(({ headers }) => headers['x-request-id']);
  const linesOf = (id: unknown) => daemon?.log.filter((line) => line['id'] === id).map(({ msg }) => msg);
  await waitFor('the lines', () => linesOf(ids[2])?.length === 2);
  assert.equal(ids.map(linesOf), [['request'], ['request failed', 'request'], ['request failed', 'request']]);
  const about = daemon.log.filter(({ msg }) => /request|connection/.test(msg));
  assert.ok(about.every((line) => typeof line['id'] === 'string'));
});

test('kept logs are bounded whatever is written, and `svc logs -f` misses no line', async ({ home }) => {
  const path = join(home.dir, 'state', 'daemon.log');
  mkdirSync(join(home.dir, 'state'));
  const file = new LogFile(path, { maxBytes: 20_000, keep: 2 });
  const write = (n: number): void => {
    const time = new Date().toISOString();
    file.write(`${JSON.stringify({ level: 'info', time, msg: `line ${String(n)}`, padding: 'x'.repeat(100) })}\n`);
  };
  write(0);
  await waitFor('the file', () => readdirSync(join(home.dir, 'state')).includes('daemon.log'));
  const following = spawnSvc(['logs', '-f', '--tail', '1'], { home });
  const seen = (): (string | undefined)[] =>
    following
      .stdout()
      .trimEnd()
      .split('\n')
      .map((line) => parseLogLine(line)?.msg);
  await waitFor('the first line', () => seen().at(-1) === 'line 0');
  for (let n = 1; n <= 1000; n++) {
    write(n);
    // At most one rotation at a time: about 120 lines fill a file.
    if (n % 60 === 0) await waitFor(`line ${String(n)}`, () => seen().at(-1) === `line ${String(n)}`);
  }
  await waitFor('the last line', () => seen().at(-1) === 'line 1000');
  following.child.kill('SIGINT');
  await following.result;
  await file.close();
  assert.equal(
    seen(),
    Array.from({ length: 1001 }, (_, n) => `line ${String(n)}`),
  );
  const files = readdirSync(join(home.dir, 'state')).filter((name) => name.startsWith('daemon.log'));
  assert.equal(files.sort(), ['daemon.log', 'daemon.log.1', 'daemon.log.2']);
  const bytes = files.reduce((sum, name) => sum + readFileSync(join(home.dir, 'state', name)).length, 0);
  assert.ok(bytes < 3 * (20_000 + 65_536), String(bytes));

  for (const [tail, lines] of [
    ['0', 0],
    ['3', 3],
    ['1000000', -1],
  ] as const) {
    const { code, stdout } = await svc(['logs', '--tail', tail], { home });
    assert.is(code, 0);
    if (lines >= 0) assert.is(stdout.split('\n').length - 1, lines);
    else assert.match(stdout, 'line 1000');
  }
  for (const tail of ['x', '1.5', '-1', '']) assertExit(await svc(['logs', '--tail', tail], { home }), 2, tail);
});

test.run();
