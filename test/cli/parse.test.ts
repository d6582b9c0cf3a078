import { test } from 'uvu';
import * as assert from 'uvu/assert';
import * as v from 'valibot';
import { ALIASES } from '../../src/cli/aliases.ts';
import { loadSpecs, type CommandName } from '../../src/cli/commands.ts';
import * as parser from '../../src/cli/parse.ts';
import { answerFlags, type Flag, type Spec } from '../../src/cli/spec.ts';
import { GenerateRequestSchema } from '../../src/protocol/generate.ts';
import { rejection } from '../support/errors.ts';

const { wantsJson } = parser;
const COMMANDS = await loadSpecs();

type Command = parser.Parsed & { readonly kind: 'command'; readonly name: CommandName };
type Parsed = { readonly kind: 'version' } | { readonly kind: 'help'; readonly topic: parser.Topic } | Command;

const parse = (argv: readonly string[]): Parsed =>
  parser.dispatch<Parsed>(argv, {
    version: () => ({ kind: 'version' }),
    help: (topic) => ({ kind: 'help', topic }),
    command: (name, rest) => ({ kind: 'command', name, ...parser.parse(name, COMMANDS[name], rest) }),
  });

function command(...argv: string[]): Command {
  const parsed = parse(argv);
  if (parsed.kind !== 'command') throw new Error(`${argv.join(' ')} is no command but ${parsed.kind}`);
  return parsed;
}

const refused = async (argv: string[], message: RegExp, hint: RegExp): Promise<void> => {
  const error = await rejection(() => parse(argv), 'INVALID_REQUEST', message);
  assert.match(error.hint ?? '', hint);
};

test('a prompt is passed on exactly as typed', () => {
  for (const prompt of [
    'hello',
    '007',
    '1e3',
    'true',
    '-',
    '',
    'run',
    'model list',
    '{"a": 1}',
    'a=b',
    '-5 + 3',
    '--help',
  ]) {
    assert.equal(command('run', '--json', '--', prompt).rest, [prompt]);
    if (!prompt.startsWith('-')) assert.is(command('run', '--json', prompt).args['model'], prompt, 'after a switch');
  }
  assert.equal(command('run').args, { model: undefined, prompt: [], '-': undefined });
});

test('flags are parsed by their kind, before and after the argument', () => {
  const { flags } = command(
    'run',
    '-m',
    'x',
    'hi',
    '--temperature',
    '0.5',
    '--top-k=7',
    '--stop',
    'a',
    '--stop=b',
    '--timeout',
    '1.5m',
  );
  assert.is(flags['model'], 'x');
  assert.is(flags['temperature'], 0.5);
  assert.is(flags['top-k'], 7);
  assert.equal(flags['stop'], ['a', 'b']);
  assert.is(flags['timeout'], 90_000);
  assert.is(flags['seed'], undefined);
  assert.is(flags['json'], false);
});

test('a flag value may look like a number, a flag, or be empty', () => {
  assert.is(command('run', '-s', '- be brief', 'hi').flags['system'], '- be brief');
  assert.is(command('run', '-m', '7', 'hi').flags['model'], '7');
  assert.is(command('run', '-mqwen', 'hi').flags['model'], 'qwen');
  assert.is(command('run', '-m=qwen', 'hi').flags['model'], 'qwen');
  assert.is(command('run', '--system=a=b', 'hi').flags['system'], 'a=b');
  assert.equal(command('run', '--stop', '\n', 'hi').flags['stop'], ['\n']);
  assert.equal(command('run', '--stop=--', 'hi').flags['stop'], ['--']);
  assert.equal(command('run', '--stop', '-1', 'hi').flags['stop'], ['-1']);
});

test('flags whose name begins with no- are ordinary flags', () => {
  assert.is(command('run', '--no-stream', 'hi').flags['no-stream'], true);
  assert.is(command('run', 'hi').flags['no-stream'], false);
  assert.is(command('run', '--no-start', '--no-stream', 'hi').flags['no-start'], true);
});

test('defaults come from the table of commands', () => {
  assert.is(command('start').flags['timeout'], 15_000);
  assert.is(command('stop').flags['timeout'], 30_000);
  assert.is(command('logs').flags['tail'], 200);
  assert.is(command('health').flags['source'], 'http');
});

test('switches may be combined, and may precede the command', () => {
  assert.is(command('--json', 'status').flags['json'], true);
  assert.is(command('model', '--json', 'list').name, 'model list');
  assert.is(command('logs', '-f').flags['follow'], true);
});

test('unknown commands and flags are refused with a suggestion', async () => {
  await refused(['modle'], /unknown command "modle"/, /did you mean "model"/);
  await refused(['model', 'lst'], /unknown command "model lst"/, /did you mean "model list"/);
  await refused(['model', 'xyzzy'], /unknown command/, /svc model --help/);
  await refused(['xyzzy'], /unknown command/, /svc --help/);
  await refused(['constructor'], /unknown command/, /svc --help/);
  await refused(['run', '--modle', 'x', 'hi'], /unknown flag --modle for svc run/, /did you mean "--model"/);
  await refused(['run', '--__proto__', 'hi'], /unknown flag/, /--/);
  await refused(['run', '-5 + 3'], /unknown flag -5/, /after `--`/);
  await refused(['status', '-v'], /unknown flag -v/, /svc status --help/);
  await refused(['--xyzzy'], /unknown flag --xyzzy/, /svc --help/);
});

test('invalid flag values are refused, naming the flag', async () => {
  await refused(['logs', '--tail', 'x'], /--tail must be a whole number/, /./);
  await refused(['logs', '--tail=-5'], /--tail must be a whole number/, /./);
  await refused(['logs', '--tail', '1.5'], /--tail must be a whole number/, /./);
  await refused(['start', '--timeout', 'soon'], /--timeout must be a time/, /./);
  await refused(['run', '--temperature', 'hot', 'hi'], /--temperature must be a number/, /./);
  await refused(['run', '--temperature', '', 'hi'], /--temperature must be a number/, /./);
  await refused(['health', '--source', 'smoke'], /--source must be one of http, grpc, socket/, /./);
  await refused(['run', '--json=1', 'hi'], /--json takes no value/, /./);
  await refused(['run', 'hi', '--model'], /--model needs a value/, /./);
  await refused(['run', '--model', '--json', 'hi'], /--model needs a value/, /./);
  await refused(['run', '--seed', '1', '--seed', '2', 'hi'], /--seed may be given only once/, /./);
});

test('a number that every API refuses is refused by the command line, of each flag that has one', async () => {
  const numeric = Object.entries<Flag>(answerFlags).flatMap(([name, flag]) =>
    flag.kind === 'number' || flag.kind === 'count' ? [{ name, flag }] : [],
  );
  assert.is(numeric.length, 6);
  for (const { name, flag } of numeric) {
    const { least = 0, most } = flag;
    const accepts = (value: number): boolean => {
      const field = name.replaceAll('-', '_');
      const fields = field === 'max_tokens' ? { max_tokens: value } : { sampling: { [field]: value } };
      return v.is(GenerateRequestSchema, { messages: [{ role: 'user', content: 'hi' }], ...fields });
    };
    const step = flag.kind === 'count' ? 1 : 0.5;
    assert.equal([least, most].map(accepts), [true, true], name);
    assert.equal([least - step, most + step].map(accepts), [false, false], name);
    for (const command of ['run', 'chat'] as const) {
      const range = new RegExp(`--${name} must be a (whole )?number from ${least} to ${most}, not "${most + step}"`);
      await refused([command, `--${name}`, String(most + step)], range, /./);
      await refused([command, `--${name}=${String(least - step)}`], /must be a (whole )?number from/, /./);
      parse([command, `--${name}`, String(most)]);
    }
  }
});

test('every count has a maximum, beyond which the command line refuses it', async () => {
  const counts = (Object.keys(COMMANDS) as CommandName[]).flatMap((name) =>
    Object.entries<Flag>(COMMANDS[name].flags).flatMap(([flag, facts]) =>
      facts.kind === 'count' ? [{ name, flag, facts }] : [],
    ),
  );
  assert.ok(counts.some(({ name, flag }) => name === 'usage' && flag === 'days'));
  for (const { name, flag, facts } of counts) {
    const range = new RegExp(`--${flag} must be a whole number from ${facts.least ?? 0} to ${facts.most}, not`);
    const spec: Spec = COMMANDS[name];
    const words = (spec.arguments ?? []).flatMap(({ required }) => (required ? ['word'] : []));
    for (const value of [String(facts.most + 1), '9'.repeat(400)])
      await refused([...name.split(' '), ...words, `--${flag}=${value}`], range, /./);
  }
});

test('missing and surplus arguments are refused', async () => {
  await refused(['model', 'show'], /needs a model/, /svc model show --help/);
  await refused(['status', 'now'], /unexpected argument "now"/, /./);
});

test('run takes any number of words, and a final `-`', () => {
  const args = (...words: string[]) => command('run', ...words).args;
  assert.equal(args('llama', 'why', 'not?'), { model: 'llama', prompt: ['why', 'not?'], '-': undefined });
  assert.equal(args('llama', '--json', 'hi', '-'), { model: 'llama', prompt: ['hi'], '-': '-' });
  assert.equal(args('-'), { model: undefined, prompt: [], '-': '-' });
  assert.equal(args('a', '-', 'b'), { model: 'a', prompt: ['-', 'b'], '-': undefined });
  assert.equal(command('run', 'a', '--', '-5', '-').rest, ['-5', '-']);
});

test('short forms are commands with the same flags and arguments', async () => {
  for (const [alias, name] of Object.entries(ALIASES)) {
    assert.equal(parse([alias, '--help']), { kind: 'help', topic: name });
    assert.equal(parse(['help', alias]), { kind: 'help', topic: name });
  }
  assert.is(command('ls', '--json').name, 'model list');
  assert.equal(command('--json', 'rm', 'rm', '-y').args, { model: 'rm' });
  assert.is(command('show', 'model').args['model'], 'model');
  await refused(['pull'], /svc model pull needs a model/, /./);
  await refused(['lss'], /unknown command "lss"/, /did you mean "ls"/);
});

test('words after -- are passed on by a command that starts a program', async () => {
  const { args, flags, rest } = command('launch', '-m', 'x', 'claude', '--', '-m', 'y', '--', '--json');
  assert.equal([args['agent'], flags['model'], rest], ['claude', 'x', ['-m', 'y', '--', '--json']]);
  assert.equal(command('launch', 'codex', '--', '--help').rest, ['--help']);
  assert.equal(command('launch', 'codex').rest, []);
  assert.equal(command('run', '--', '--help').rest, ['--help']);
  await refused(['launch', 'claude', '-p', 'hi'], /unknown flag -p/, /arguments of the agent after `--`/);
  await refused(['launch', 'claude', 'hi'], /unexpected argument "hi"/, /arguments of the agent after `--`/);
  await refused(['launch', 'claude', '--modle', 'x'], /unknown flag --modle/, /did you mean "--model"/);
  await refused(['launch', 'cluade'], /must be one of claude, codex/, /did you mean "claude"/);
  await refused(['launch', '--', 'claude'], /needs an agent/, /./);
});

test('help and version', () => {
  assert.equal(parse([]), { kind: 'help', topic: undefined });
  assert.equal(parse(['--help']), { kind: 'help', topic: undefined });
  assert.equal(parse(['help', 'model', 'add']), { kind: 'help', topic: 'model add' });
  assert.equal(parse(['model']), { kind: 'help', topic: 'model' });
  assert.equal(parse(['run', 'hi', '-h']), { kind: 'help', topic: 'run' });
  assert.equal(parse(['-v']), { kind: 'version' });
  assert.equal(parse(['--version']), { kind: 'version' });
});

test('a usage error is JSON if the command line has --json', () => {
  assert.is(wantsJson(['modle', '--json']), true);
  assert.is(wantsJson(['run', '--', '--json']), false);
  assert.is(wantsJson(['run', 'hi']), false);
});

test('every example of the table parses', () => {
  for (const [name, { examples }] of Object.entries(COMMANDS)) {
    for (const example of examples) {
      const call = /(?:^|[ |])svc (.*)$/.exec(example)?.[1] ?? '';
      const argv = [...call.matchAll(/"([^"]*)"|(\S+)/g)].map(([, quoted, plain]) => quoted ?? plain ?? '');
      assert.is(command(...argv).name, name, example);
    }
  }
});

test.run();
