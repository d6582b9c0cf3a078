/** `svc chat`, from a pipe and on a terminal. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { readdirSync, readFileSync } from 'node:fs';
import { ControlClient } from '../../src/client/control-client.ts';
import { processesWith } from '../../scripts/steps/processes.js';
import { childEnvironment } from '../../src/process/environment.ts';
import type { GenerateRequest } from '../../src/protocol/generate.ts';
import { assertExit } from '../support/exit.ts';
import { holdEngines } from '../support/hold.ts';
import { makeHome, type Home } from '../support/home.ts';
import { unless } from '../support/skip.ts';
import { spawnSvc, svc, SVC_COMMAND, type SvcResult } from '../support/svc.ts';
import { KEYS, NO_TERMINAL, Terminal } from '../support/terminal.ts';
import { waitFor } from '../support/wait.ts';

const STEADY = ['--temperature', '0', '--max-tokens', '8'];
const ROOT = join(import.meta.dirname, '..', '..');
const MODELS = join(ROOT, 'build', 'models');
/** A model that generates until its context is full. */
const LONG = join(MODELS, 'tiny-gemma.gguf');

interface Context {
  home: Home;
  client: ControlClient;
  /** Runs `svc chat` with piped input. */
  chat(input: string, ...args: string[]): Promise<SvcResult>;
  /** Runs `svc chat` on a terminal; killed after the test. */
  terminal(...args: string[]): Terminal;
  /** Answer of the model to a whole conversation. */
  answerTo(...messages: string[]): Promise<string>;
}
const test = suite<Context>('chat');
const terminals: Terminal[] = [];
test.before(async (context) => {
  const home = (context.home = await makeHome());
  context.client = new ControlClient(join(home.dir, 'run', 'svc.sock'));
  context.chat = (input, ...args) => svc(['chat', ...STEADY, ...args], { home, input });
  context.terminal = (...args) => {
    const made = new Terminal([...SVC_COMMAND, 'chat', ...args], home.env);
    terminals.push(made);
    return made;
  };
  context.answerTo = async (...messages) => {
    const request: GenerateRequest = {
      messages: messages.map((content, index) => ({ role: index % 2 === 0 ? 'user' : 'assistant', content })),
      sampling: { temperature: 0 },
      max_tokens: 8,
      stop: [],
    };
    let text = '';
    for await (const event of context.client.generate(request)) if (event.type === 'text') text += event.text;
    return text;
  };
  // Its output depends on the whole conversation, so tests can verify what was sent.
  assertExit(await svc(['model', 'add', join(MODELS, 'tiny-qwen2.gguf'), '--name', 'random'], { home }), 0);
  assertExit(await svc(['model', 'default', 'random'], { home }), 0);
  assertExit(await svc(['start', '--timeout', '150s'], { home }), 0);
});
test.after.each(() => {
  for (const terminal of terminals.splice(0)) terminal.kill();
});
test.after(async ({ home }) => {
  await svc(['stop', '--force'], { home });
  await home.remove();
});

const lines = (text: string): string =>
  text
    .split('\n')
    .filter((line) => line !== '')
    .join('\n');

test('from a pipe every line is a turn, sent with the conversation so far', async ({ chat, answerTo }) => {
  const first = await answerTo('Hello');
  const second = await answerTo('Hello', first, 'And again');
  assert.is.not(second, await answerTo('And again'), 'a conversation that makes no difference shows nothing');
  const result = await chat('Hello\n\nAnd again');
  assertExit(result, 0);
  assert.is(lines(result.stdout), lines(`${first}\n${second}\n`));
  assert.not.match(result.stderr, />>>|chatting with/);
  const cleared = await chat('Hello\n/clear\nHello\n');
  assert.is(lines(cleared.stdout), lines(`${first}\n${first}\n`));
});

test('several lines between triple quotes are one turn', async ({ chat, answerTo }) => {
  const answer = lines(await answerTo('one\n\n two'));
  for (const input of [
    '"""\none\n\n two\n"""\n',
    '"""one\n\n two"""\n',
    '"""one\r\n\r\n two\r\n"""',
    '"""\none\n\n two',
  ])
    assert.is(lines((await chat(input)).stdout), answer, JSON.stringify(input));
});

test('a line that begins with a slash is a command; an unknown command is refused', async ({ chat, answerTo }) => {
  const wrong = await chat('/modle\nHello\n');
  assertExit(wrong, 2);
  assert.is(wrong.stdout, '');
  assert.match(wrong.stderr, /unknown command \/modle\nhint: did you mean \/model\?/);
  assert.is((await chat('/exit\nHello\n')).stdout, '');
  assert.is(lines((await chat(' /exit\n')).stdout), lines(await answerTo(' /exit')));
  const paths = await chat('/etc/passwd is what?\n');
  assert.is(lines(paths.stdout), lines(await answerTo('/etc/passwd is what?')));
  assert.match((await chat('/help\n')).stderr, /\/clear +clear the conversation[^]*\/exit/);
});

test('/model switches the model; an unknown model is refused', async ({ chat, home }) => {
  const path = join(MODELS, 'tiny-llama.gguf');
  assertExit(await svc(['model', 'add', path, '--name', 'other'], { home }), 0);
  const result = await chat('Hello\n/model other\nHello\n');
  assert.match(result.stderr, /^svc: chatting with other$/m);
  assertExit(result, 0);
  const none = await chat('/model othr\n');
  assertExit(none, 1);
  assert.match(none.stderr, /no model "othr"\nhint: did you mean other\?/);
});

test('the flags reach the engine; with wrong flags the chat does not start', async ({ chat }) => {
  assert.is.not((await chat('Hello\n', '-s', 'Be brief')).stdout, (await chat('Hello\n')).stdout);
  assertExit(await chat('Hello\n', '--local', '--cloud'), 2);
  for (const input of ['Hello\n', '']) {
    const wrong = await chat(input, '-m', 'bultin');
    assertExit(wrong, 1);
    assert.match(wrong.stderr, /there is no model "bultin"\nhint: did you mean builtin\?/);
  }
  assertExit(await chat('', '-m', 'no/such.gguf'), 1);
});

test('-m default is the default model, and a name of a provider is not checked before it is asked', async (context) => {
  const { chat, home } = context;
  assert.is((await chat('Hello\n', '-m', 'default')).stdout, (await chat('Hello\n')).stdout);
  assert.match((await chat('/model\n', '-m', 'default')).stderr, /^svc: chatting with random$/m);
  assertExit(await svc(['provider', 'set', 'farm', '--base-url', 'http://127.0.0.1:9/v1'], { home }), 0);
  assertExit(await chat('', '-m', 'farm/sage'), 0);
});

test('from a pipe the first error ends the chat with its exit code', async ({ home }) => {
  const binary = await svc(['chat'], { home, input: Buffer.from([0x68, 0xff, 0x0a]) });
  assertExit(binary, 65);
  assert.match(binary.stderr, /not valid UTF-8/);
  const long = await svc(['chat', ...STEADY], { home, input: `${'word '.repeat(20_000)}\n` });
  assertExit(long, 65);
  assert.match(long.stderr, /\/clear starts over/);
});

test('Ctrl-C ends a piped chat and its generation', async ({ home, client }) => {
  const running = spawnSvc(['chat', '-m', LONG], { home, input: 'Count\nOn\n' });
  await waitFor('the first words', () => running.stdout() !== '');
  const held = await holdEngines(client);
  running.child.kill('SIGINT');
  assert.is((await running.result).code, 130);
  held.release();
  await waitFor('the engine to be idle', async () => (await client.health()).queue.active === 0);
});

test('Ctrl-C ends a piped chat that waits for input', async ({ home }) => {
  const [program = '', ...before] = SVC_COMMAND;
  const child = spawn(program, [...before, 'chat'], { cwd: ROOT, env: childEnvironment(home.env), stdio: 'pipe' });
  let stderr = '';
  child.stderr.setEncoding('utf8').on('data', (text: string) => (stderr += text));
  const end = once(child, 'close');
  child.stdin.write('/model\n');
  await waitFor('its answer', () => stderr.includes('chatting with'));
  child.kill('SIGINT');
  assert.is((await end)[0], 130, stderr);
});

const atKeyboard = unless(NO_TERMINAL, test);

atKeyboard('on a terminal: Ctrl-C stops the answer but not the chat, Ctrl-D leaves', async ({ terminal, client }) => {
  const chat = terminal('-m', LONG, '--temperature', '0');
  await chat.shows(/chatting with .*tiny-gemma[^]*>>> $/);
  chat.type(`Count the sheep${KEYS.enter}`);
  await chat.shows(/sheep\n[^]*\S{3}/);
  const held = await holdEngines(client);
  assert.is((await client.health()).queue.active, 1);
  chat.type(KEYS.ctrlC);
  await chat.shows(/\n>>> $/);
  held.release();
  await waitFor('the engine to be idle', async () => (await client.health()).queue.active === 0);

  // Ctrl-C first clears the input line, then prints how to leave.
  chat.type('half a thou');
  await chat.shows('half a thou');
  chat.clear();
  chat.type(KEYS.ctrlC);
  await chat.shows(/>>> $/);
  chat.type(KEYS.ctrlC);
  await chat.shows('Ctrl-D or /exit leaves');
  chat.clear();
  chat.type(KEYS.up);
  await chat.shows('Count the sheep');
  chat.type(KEYS.ctrlC);
  await chat.shows(/>>> $/);
  chat.type(KEYS.ctrlD);
  assert.is(await chat.end(), 0);
});

atKeyboard('on a terminal: the signal does what the key Ctrl-C does', async ({ home, terminal, client }) => {
  const chat = terminal('-m', LONG, '--temperature', '0');
  await chat.shows(/chatting with .*tiny-gemma[^]*>>> $/);
  const running = await processesWith('SVC_HOME', home.dir);
  const { pid } = running.find(({ command }) => command.startsWith('svc chat'))!;
  chat.type(`Count the sheep${KEYS.enter}`);
  await chat.shows(/sheep\n[^]*\S{3}/);
  const held = await holdEngines(client);
  process.kill(pid, 'SIGINT');
  await chat.shows(/\n>>> $/);
  held.release();
  chat.clear();
  process.kill(pid, 'SIGINT');
  await chat.shows('Ctrl-D or /exit leaves');
  chat.type(KEYS.ctrlD);
  assert.is(await chat.end(), 0);
});

atKeyboard(
  'on a terminal: Ctrl-Z stops the chat, at the prompt and in an answer; `fg` goes on',
  async ({ home, client }) => {
    const command = [...SVC_COMMAND, 'chat', '-m', LONG, '--temperature', '0'].map((word) => `'${word}'`).join(' ');
    const shell = new Terminal(['sh', '-mc', `${command}; echo one; fg; echo two; fg; echo "left $?"`], home.env);
    terminals.push(shell);
    await shell.shows(/chatting with .*tiny-gemma[^]*>>> $/);
    shell.type(KEYS.ctrlZ);
    await shell.shows(/one\n[^]*>>> $/);
    shell.type(`Count the sheep${KEYS.enter}`);
    await shell.shows(/sheep\n[^]*\S{3}/);
    const held = await holdEngines(client);
    shell.clear();
    shell.type(KEYS.ctrlZ);
    await shell.shows(/two\n/);
    held.release();
    // After the command line, which the shell prints.
    await shell.shows(/two\n[^\n]*\n[^]*\S{3}/);
    shell.type(KEYS.ctrlC);
    await shell.shows(/\n>>> $/);
    shell.type(KEYS.ctrlD);
    await shell.shows('left 0');
  },
);

atKeyboard('on a terminal: errors are printed, the chat continues, and /exit leaves', async ({ terminal }) => {
  const chat = terminal(...STEADY);
  await chat.shows(/chatting with random[^]*>>> $/);
  chat.type(`/modle x${KEYS.enter}`);
  await chat.shows(/unknown command \/modle\nhint: did you mean \/model[^]*>>> $/);
  chat.clear();
  chat.type(`"""${KEYS.enter}`);
  await chat.shows(/\.\.\. $/);
  chat.type(`one${KEYS.enter}two${KEYS.enter}"""${KEYS.enter}`);
  await chat.shows(/"""\n[^]*\n>>> $/);
  chat.type(`/exit${KEYS.enter}`);
  assert.is(await chat.end(), 0);
});

atKeyboard('on a terminal: pasted lines are one turn', async ({ terminal, answerTo }) => {
  const expected = lines(await answerTo('one\ntwo'));
  const chat = terminal(...STEADY);
  await chat.shows(/>>> $/);
  chat.type(`\u001b[200~one\rtwo\u001b[201~`);
  await chat.shows(/two$/);
  chat.type(KEYS.enter);
  const screen = await chat.shows(/two\n[^]*\n>>> $/);
  assert.ok(lines(screen).includes(expected), `${screen}\nlacks\n${expected}`);
  assert.is(screen.match(/^>>> /gm)?.length, 2);
  chat.type(KEYS.ctrlD);
  assert.is(await chat.end(), 0);
});

test('no part of a conversation is written to disk', async ({ home, chat }) => {
  assertExit(await chat('the canary sings at noon\n'), 0);
  const files = readdirSync(home.dir, { recursive: true, withFileTypes: true }).filter((entry) => entry.isFile());
  assert.ok(files.length > 0);
  for (const { parentPath, name } of files)
    assert.not.ok(readFileSync(join(parentPath, name)).includes('canary sings'), join(parentPath, name));
});

test('without a daemon one is started, except with --no-start', async () => {
  const home = await makeHome();
  try {
    assertExit(await svc(['chat', '--no-start'], { home, input: 'Hello\n' }), 3);
    const started = await svc(['chat', ...STEADY], { home, input: 'Hello\n' });
    assertExit(started, 0);
    assert.match(started.stderr, /^svc: starting the daemon$/m);
  } finally {
    await svc(['stop', '--force'], { home });
    await home.remove();
  }
});

test.run();
