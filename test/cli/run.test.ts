/** `svc run` with a real daemon and engine. */
import { execFileSync, spawn } from 'node:child_process';
import { closeSync, constants, mkdirSync, openSync, readFileSync, writeFileSync, writeSync } from 'node:fs';
import { once } from 'node:events';
import { join } from 'node:path';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { ControlClient } from '../../src/client/control-client.ts';
import { childEnvironment } from '../../src/process/environment.ts';
import { builtinModelPath } from '../../src/models/store/builtin.ts';
import type { UsageRecord } from '../../src/protocol/usage.ts';
import type { GenerateResult, Usage } from '../../src/protocol/generate.ts';
import { assertExit } from '../support/exit.ts';
import { holdEngines } from '../support/hold.ts';
import { makeHome, type Home } from '../support/home.ts';
import { spawnSvc, svc, SVC_COMMAND, type SvcResult } from '../support/svc.ts';
import { waitFor } from '../support/wait.ts';

interface Context {
  home: Home;
  client: ControlClient;
  run(...args: string[]): Promise<SvcResult>;
}
const test = suite<Context>('run');
test.before(async (context) => {
  context.home = await makeHome();
  context.client = new ControlClient(join(context.home.dir, 'run', 'svc.sock'));
  context.run = (...args) => svc(['run', ...args], { home: context.home });
});
test.after(async ({ home }) => {
  await svc(['stop', '--force'], { home });
  await home.remove();
});

/** A question whose answer has more tokens than STEADY allows. */
const QUESTION = 'how do i stop the daemon?';
/** Makes the answer of two runs the same. */
const STEADY = ['--temperature', '0', '--max-tokens', '12'];
const testModel = (name: string): string => join(import.meta.dirname, '..', '..', 'build', 'models', `${name}.gguf`);
/** A model that generates until its context is full. */
const LONG = ['-m', testModel('tiny-gemma'), '--temperature', '0'];
type Told = GenerateResult & { readonly usage: Usage };
const resultOf = ({ stdout }: SvcResult): Told => JSON.parse(stdout) as Told;

/** Resolves once no generation is in flight in the daemon. */
const idle = (client: ControlClient): Promise<unknown> =>
  waitFor('the generation to end in the engine', async () => {
    const { queue, models } = await client.health();
    return queue.active === 0 && models.every((model) => model.active === 0);
  });

const busy = (client: ControlClient): Promise<unknown> =>
  waitFor('a generation', async () => (await client.health()).queue.active === 1);

test('without a daemon, run starts one and prints the answer', async ({ run }) => {
  const result = await run(...STEADY, QUESTION);
  assertExit(result, 0);
  assert.match(result.stderr, /^svc: starting the daemon\n/);
  assert.match(result.stdout, /\S.*\n$/s);
});

test('the answer is the same streamed, whole, as JSON, from a pipe and by model path', async ({ run, home }) => {
  const streamed = await run(...STEADY, QUESTION);
  assert.not.match(streamed.stderr, /starting/);
  assert.is((await run(...STEADY, '--no-stream', QUESTION)).stdout, streamed.stdout);
  const result = resultOf(await run(...STEADY, '--json', QUESTION));
  assert.is(`${result.text}\n`, streamed.stdout);
  assert.is((await svc(['run', ...STEADY], { home, input: `${QUESTION}\n` })).stdout, streamed.stdout);
  assert.is((await svc(['run', ...STEADY, '-'], { home, input: QUESTION })).stdout, streamed.stdout);
  assert.is((await run(...STEADY, '-m', 'builtin', '--local', QUESTION)).stdout, streamed.stdout);
  assert.is((await run(...STEADY, '-m', builtinModelPath(), QUESTION)).stdout, streamed.stdout);
});

test('a prompt with a pipe is sent as prompt, blank line, input', async ({ run, home }) => {
  const both = await svc(['run', ...STEADY, '--json', 'Sum up'], { home, input: 'one\ntwo\n' });
  const whole = await run(...STEADY, '--json', 'Sum up\n\none\ntwo');
  assert.is(resultOf(both).text, resultOf(whole).text);
  assert.is(resultOf(both).usage.input_tokens, resultOf(whole).usage.input_tokens);
  const empty = await svc(['run', ...STEADY, '--json', 'Sum up'], { home, input: '' });
  assert.is(resultOf(empty).usage.input_tokens, resultOf(await run(...STEADY, '--json', 'Sum up')).usage.input_tokens);
});

test('--json prints the whole answer', async ({ run }) => {
  const result = await run('--json', '--seed', '7', '--max-tokens', '8', QUESTION);
  const answer = resultOf(result);
  assert.equal(Object.keys(answer), [
    'text',
    'model',
    'provider',
    'route',
    'finish_reason',
    'usage',
    'timings',
    'trace_id',
  ]);
  assert.is(answer.model, 'builtin');
  assert.is(answer.provider, 'local');
  assert.is(answer.finish_reason, 'length');
  assert.is(answer.usage.output_tokens, 8);
  assert.is(result.stdout, `${JSON.stringify(answer, null, 2)}\n`);
});

test('svc usage counts every answer as soon as it has ended', async ({ run, home }) => {
  const usageOf = async (): Promise<UsageRecord> => {
    const { stdout } = await svc(['usage', '--days', '2', '--json'], { home });
    const { usage } = JSON.parse(stdout) as { usage: UsageRecord[] };
    const rows = usage.filter(({ provider, model }) => provider === 'local' && model === 'builtin');
    return rows.at(-1) as UsageRecord;
  };
  await run(...STEADY, QUESTION);
  const before = await usageOf();
  const answer = resultOf(await run(...STEADY, '--json', QUESTION));
  const after = await usageOf();
  if (before.day === after.day) {
    assert.is(after.requests, before.requests + 1);
    assert.is(after.output_tokens, before.output_tokens + answer.usage.output_tokens);
  }
  assert.match((await svc(['usage'], { home })).stdout, /^DAY +PROVIDER +MODEL .*\n.* local +builtin /m);
});

test('the same seed gives the same text', async ({ run }) => {
  const drawn = async (seed: string): Promise<string> =>
    resultOf(await run('-m', testModel('tiny-llama'), '--json', '--seed', seed, '--max-tokens', '8', QUESTION)).text;
  assert.is(await drawn('7'), await drawn('7'));
  assert.is.not(await drawn('7'), await drawn('8'));
});

test('the flags reach the engine', async ({ run }) => {
  const plain = resultOf(await run(...STEADY, '--json', QUESTION));
  const system = resultOf(await run(...STEADY, '--json', '-s', 'Be brief', QUESTION));
  assert.ok(system.usage.input_tokens > plain.usage.input_tokens);
  const stop = [...plain.text].slice(4, 7).join('');
  const stopped = resultOf(await run(...STEADY, '--json', '--stop', 'never in it', '--stop', stop, QUESTION));
  assert.is(stopped.text, plain.text.slice(0, plain.text.indexOf(stop)));
  assert.is(stopped.finish_reason, 'stop');
  assert.is(resultOf(await run('--top-k', '1', '--max-tokens', '12', '--json', QUESTION)).text, plain.text);

  const stats = await run(...STEADY, '--stats', QUESTION);
  assert.match(
    stats.stderr,
    new RegExp(`^svc: builtin \\(local\\): ${String(plain.usage.input_tokens)} tokens in.*, 12 out`, 'm'),
  );
  const late = await run('--timeout', '1ms', QUESTION);
  assertExit(late, 124);
  for (const args of [
    ['--top-p', '5'],
    ['--max-tokens', '0'],
    ['--seed', '99999999999'],
  ]) {
    assertExit(await run(...args, QUESTION), 2, args.join(' '));
  }
});

test('an unknown model or provider, or a missing cloud, is an error and never replaced by another', async ({ run }) => {
  const model = await run('-m', 'bultin', QUESTION);
  assertExit(model, 1);
  assert.match(model.stderr, /no model "bultin"\nhint: .*builtin/);
  for (const args of [['--provider', 'nobody'], ['--cloud']]) {
    const result = await run(...args, QUESTION);
    assert.is.not(result.code, 0, args.join(' '));
    assert.is(result.stdout, '');
  }
});

test('files that are not models exit 65 with one sentence, and the daemon keeps running', async ({
  run,
  home,
  client,
}) => {
  const { pid } = await client.status();
  const good = readFileSync(builtinModelPath());
  const files = {
    'truncated.gguf': good.subarray(0, 100_000),
    'magic.gguf': Buffer.concat([Buffer.from('XXXX'), good.subarray(4)]),
    'text.gguf': Buffer.from('hello\n'),
    'empty.gguf': Buffer.alloc(0),
    'counts.gguf': Buffer.concat([good.subarray(0, 8), Buffer.alloc(16, 0x7f), good.subarray(24)]),
  };
  for (const [name, bytes] of Object.entries(files)) writeFileSync(join(home.dir, name), bytes);
  mkdirSync(join(home.dir, 'folder.gguf'));
  for (const name of [...Object.keys(files), 'folder.gguf']) {
    const result = await run('-m', join(home.dir, name), QUESTION);
    assert.is(result.code, 65, `${name}: ${result.stderr}`);
    assert.match(result.stderr, new RegExp(`^svc: .*${name}`), name);
    assert.is(result.stdout, '');
  }
  assert.is((await client.status()).pid, pid);
  assertExit(await run(...STEADY, QUESTION), 0);
});

test('Ctrl-C stops the generation in the engine and exits 130', async ({ home, client }) => {
  const running = spawnSvc(['run', ...LONG, 'Count the sheep'], { home });
  await waitFor('the first words', () => running.stdout() !== '');
  const held = await holdEngines(client);
  await busy(client);
  if (process.platform === 'linux') {
    const shown = readFileSync(`/proc/${String(running.child.pid)}/cmdline`, 'utf8');
    assert.not.match(shown, /sheep/, 'the prompt is visible in the process list');
  }
  running.child.kill('SIGINT');
  const result = await running.result;
  assertExit(result, 130);
  assert.match(result.stdout, /\n$/);
  assert.match(result.stderr, /^svc: cancelled$/m);
  held.release();
  await idle(client);
});

test('the generation stops if svc run is killed or its standard output is closed', async ({ home, client }) => {
  const killed = spawnSvc(['run', ...LONG, 'Count'], { home });
  await waitFor('the first words', () => killed.stdout() !== '');
  const first = await holdEngines(client);
  killed.child.kill('SIGKILL');
  await killed.result;
  first.release();
  await idle(client);

  const unread = spawnSvc(['run', ...LONG, 'Count'], { home });
  await waitFor('the first words', () => unread.stdout() !== '');
  const second = await holdEngines(client);
  unread.child.stdout?.destroy();
  second.release();
  const result = await unread.result;
  assert.is(result.code, 0, 'a closed standard output is not a failure');
  assert.not.match(result.stderr, /EPIPE|broke/);
  await idle(client);
});

test('a write error on standard output is a failure', async ({ home }) => {
  if (process.platform !== 'linux') return;
  const [program = '', ...before] = SVC_COMMAND;
  const child = spawn(
    '/bin/sh',
    ['-c', 'exec "$@" > /dev/full', 'sh', program, ...before, 'run', ...STEADY, QUESTION],
    {
      cwd: join(import.meta.dirname, '..', '..'),
      env: childEnvironment(home.env),
      stdio: ['ignore', 'ignore', 'pipe'],
    },
  );
  let stderr = '';
  child.stderr.setEncoding('utf8').on('data', (text: string) => (stderr += text));
  const [code] = (await once(child, 'close')) as [number];
  assert.is(code, 73);
  assert.match(stderr, /cannot write to standard output/);
});

test('--schema and --grammar constrain the answer by a file', async ({ run, home }) => {
  const schema = join(home.dir, 'weather.json');
  writeFileSync(
    schema,
    JSON.stringify({ type: 'object', properties: { warm: { type: 'boolean' } }, required: ['warm'] }),
  );
  const answer = await run('--schema', schema, '--json', 'Is it warm?');
  assertExit(answer, 0);
  assert.match(resultOf(answer).text, /^\{"warm": (true|false)\}$/);
  assert.is(resultOf(answer).finish_reason, 'stop');

  const grammar = join(home.dir, 'answer.gbnf');
  writeFileSync(grammar, '# one word\nroot ::= "yes" | "no"\n');
  assert.match((await run('--grammar', grammar, QUESTION)).stdout, /^(yes|no)\n$/);
});

test('a schema may come from a FIFO, and Ctrl-C ends the wait for it', async ({ home }) => {
  if (process.platform === 'win32') return;
  const fifo = join(home.dir, 'fifo');
  execFileSync('mkfifo', [fifo]);
  const waiting = async () => {
    const running = spawnSvc(['run', '--no-start', '--schema', fifo, QUESTION], { home });
    // Until there is a reader, a FIFO cannot be opened like this.
    const writer = await waitFor('a reader', () => openSync(fifo, constants.O_WRONLY | constants.O_NONBLOCK));
    return { running, writer };
  };
  const first = await waiting();
  writeSync(first.writer, '[1]');
  closeSync(first.writer);
  assert.match((await first.running.result).stderr, /fifo:1:1: the schema must be a JSON object/);

  const second = await waiting();
  second.running.child.kill('SIGINT');
  assert.is((await second.running.result).signal, 'SIGINT');
  closeSync(second.writer);
});

test('an invalid schema or grammar is reported with line and column', async ({ run, home }) => {
  const file = join(home.dir, 'wrong');
  const cases: readonly [flag: string, text: string | Buffer, message: RegExp][] = [
    ['--schema', '{\n  "type": "object",\n}', /wrong:3:1: not valid JSON: /],
    ['--schema', '', /wrong:1:1: not valid JSON/],
    ['--schema', '[1]', /wrong:1:1: the schema must be a JSON object/],
    [
      '--schema',
      '{\n "properties": {\n  "a.b": {"type": "number", "multipleOf": 2}}}',
      /wrong:3:29: .*multipleOf cannot be enforced/,
    ],
    ['--schema', '{"allOf": [{}, {"type": "colour"}]}', /wrong:1:/],
    ['--schema', Buffer.from([0x7b, 0xff, 0x7d]), /cannot read .*wrong: not valid UTF-8/],
    ['--grammar', 'root ::= "a"\nroot ::= "b"', /wrong:2:1: duplicate rule root/],
    ['--grammar', 'root ::= root "a"', /wrong: .*left recursion/],
    ['--grammar', '', /wrong is empty/],
  ];
  for (const [flag, text, message] of cases) {
    writeFileSync(file, text);
    const result = await run(flag, file, QUESTION);
    assertExit(result, 65);
    assert.match(result.stderr, message);
    assert.is(result.stdout, '');
  }
  const missing = await run('--schema', join(home.dir, 'missing'), QUESTION);
  assertExit(missing, 65);
  assert.match(missing.stderr, /cannot read .*missing: no such file/);
  assertExit(await run('--schema', file, '--grammar', file, QUESTION), 2);
});

test('if the engine dies mid-answer, the error follows the text so far', async ({ home, client }) => {
  const running = spawnSvc(['run', ...LONG, 'Count'], { home });
  await waitFor('the first words', () => running.stdout() !== '');
  await holdEngines(client);
  // An idle engine is killed too.
  for (const { pid } of (await client.health()).models) if (pid !== null) process.kill(pid, 'SIGKILL');
  const result = await running.result;
  assertExit(result, 69);
  assert.match(result.stdout, /\S\n$/);
  const again = await svc(['run', ...STEADY, QUESTION], { home });
  assertExit(again, 0);
});

test('if the daemon dies mid-answer, run fails instead of ending normally', async ({ home, client }) => {
  const running = spawnSvc(['run', ...LONG, 'Count'], { home });
  await waitFor('the first words', () => running.stdout() !== '');
  await holdEngines(client);
  process.kill((await client.status()).pid as number, 'SIGKILL');
  const result = await running.result;
  assertExit(result, 3);
  assert.match(result.stderr, /went away before its answer was complete/);
});

test.run();
