/** `svc run` with a pipe as standard input: when it reads, waits for or ignores the pipe. */
import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { ControlClient } from '../../src/client/control-client.ts';
import { childEnvironment } from '../../src/process/environment.ts';
import { assertExit } from '../support/exit.ts';
import { holdEngines } from '../support/hold.ts';
import { makeHome, type Home } from '../support/home.ts';
import { svc, SVC_COMMAND } from '../support/svc.ts';
import { waitFor } from '../support/wait.ts';

const ROOT = join(import.meta.dirname, '..', '..');
const STEADY = ['--temperature', '0', '--max-tokens', '8'];
/** A test model that generates until its context is full. */
const LONG = ['-m', join(ROOT, 'build', 'models', 'tiny-gemma.gguf'), '--temperature', '0'];

interface Open {
  readonly child: ChildProcess;
  stdout(): string;
  stderr(): string;
  code(): Promise<number>;
}

const test = suite<{ home: Home; open(...args: string[]): Open }>('run beside a pipe');
test.before(async (context) => {
  const home = (context.home = await makeHome());
  // Standard input is a socket that stays open until the test ends it, as when an editor runs svc.
  context.open = (...args) => {
    const [program = '', ...before] = SVC_COMMAND;
    const child = spawn(program, [...before, 'run', ...args], { cwd: ROOT, env: childEnvironment(home.env) });
    const written = { stdout: '', stderr: '' };
    for (const name of ['stdout', 'stderr'] as const)
      child[name].setEncoding('utf8').on('data', (text: string) => (written[name] += text));
    child.stdin.on('error', () => undefined);
    const end = once(child, 'close');
    return {
      child,
      stdout: () => written.stdout,
      stderr: () => written.stderr,
      code: () =>
        waitFor('the command to end', async () => ({ code: (await end)[0] as number })).then(({ code }) => code),
    };
  };
  assertExit(await svc(['start', '--timeout', '150s'], { home }), 0);
});
test.after(async ({ home }) => {
  await svc(['stop', '--force'], { home });
  await home.remove();
});

const SILENT = /no data on standard input: ignoring it/;

test('with a prompt, a silent pipe is ignored', async ({ home, open }) => {
  const running = open(...STEADY, 'Hello');
  assert.is(await running.code(), 0, running.stderr());
  assert.match(running.stderr(), SILENT);
  assert.is(running.stdout(), (await svc(['run', ...STEADY, 'Hello'], { home })).stdout);
});

test('with a prompt, a silent pipe of a shell is ignored', async ({ home }) => {
  const [program = '', ...before] = SVC_COMMAND;
  const script = 'exec 3<>"$SVC_HOME/fifo"; "$@" <&3';
  const shell = ['-c', `mkfifo "$SVC_HOME/fifo"; ${script}`, 'sh', program, ...before, 'run', ...STEADY, 'Hello'];
  const child = spawn('/bin/sh', shell, {
    cwd: ROOT,
    env: childEnvironment(home.env),
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  let stderr = '';
  child.stderr.setEncoding('utf8').on('data', (text: string) => (stderr += text));
  child.stdout.resume();
  const [code] = (await once(child, 'close')) as [number];
  assert.is(code, 0, stderr);
  assert.match(stderr, SILENT);
});

test('input that begins soon is read to its end, however long that takes', async ({ home, open }) => {
  const running = open(...STEADY, '--json', 'Sum up');
  running.child.stdin?.write('one\n');
  await waitFor('the command to wait for the end', () => running.stderr().includes('waiting for the end'));
  running.child.stdin?.end('two\n');
  assert.is(await running.code(), 0, running.stderr());
  assert.not.match(running.stderr(), SILENT);
  const tokens = (text: string): number => (JSON.parse(text) as { usage: { input_tokens: number } }).usage.input_tokens;
  const whole = await svc(['run', ...STEADY, '--json', 'Sum up\n\none\ntwo'], { home });
  assert.is(tokens(running.stdout()), tokens(whole.stdout));
});

test('`-` after the prompt, or no prompt, waits for input', async ({ open }) => {
  const waits = async (...args: string[]): Promise<void> => {
    const running = open(...STEADY, ...args);
    await waitFor('the command to wait', () => running.stderr().includes('waiting for the end'));
    assert.is(running.stdout(), '');
    running.child.stdin?.end('there\n');
    assert.is(await running.code(), 0, running.stderr());
    assert.not.match(running.stderr(), SILENT);
  };
  await Promise.all([waits('Hello', '-'), waits('-'), waits()]);
});

test('input that arrives after the request was sent stops the answer with exit 65', async ({ open, home }) => {
  const running = open(...LONG, 'Count');
  await waitFor('the first words', () => running.stdout() !== '');
  const held = await holdEngines(new ControlClient(join(home.dir, 'run', 'svc.sock')));
  running.child.stdin?.end('to ten\n');
  assert.is(await running.code(), 65);
  held.release();
  assert.match(running.stderr(), /sent data only after the answer was requested\nhint: put `-` after the prompt/);
});

test('an end of file after the request was sent changes nothing', async ({ open }) => {
  const running = open(...LONG, '--max-tokens', '400', 'Count');
  await waitFor('the first words', () => running.stdout() !== '');
  running.child.stdin?.end();
  assert.is(await running.code(), 0, running.stderr());
});

test('`-` before other words is refused', async ({ home }) => {
  const result = await svc(['run', '-', 'there'], { home });
  assertExit(result, 2);
  assert.match(result.stderr, /`-` must be the last word\nhint: svc run/);
});

test.run();
