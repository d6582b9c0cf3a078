/** The built-in model reaches its quality thresholds on questions that its training templates cannot produce. */
import { createHash } from 'node:crypto';
import { readFileSync, statSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { inspectGguf, readGgufHeader } from '../../src/models/gguf/gguf.ts';
import { builtinModelPath } from '../../src/models/store/builtin.ts';
import { inventedIn } from './commands-named.ts';
import { ask } from './ask.ts';
import { BARS, CONFIDENTLY_WRONG_BAR, evaluate, tally, type Scored } from './evaluate.ts';
import { readAnswers, readLearned, UNKNOWN } from './questions.ts';

const test = suite('nano');
let scored: readonly Scored[] = [];

test.before(async () => {
  scored = await evaluate(builtinModelPath(), 'evaluation');
});

test('it is small, and the digest is the one in its README', async () => {
  const { architecture, context_length } = await inspectGguf(builtinModelPath());
  assert.is(architecture, 'llama');
  assert.ok((context_length ?? 0) >= 2048);
  assert.ok(statSync(builtinModelPath()).size <= 12e6);
  const digest = createHash('sha256').update(readFileSync(builtinModelPath())).digest('hex');
  const readme = readFileSync(fileURLToPath(new URL('../../models/nano/README.md', import.meta.url)), 'utf8');
  assert.ok(readme.includes(digest), `the README does not name ${digest}`);
  const { metadata } = await readGgufHeader(builtinModelPath());
  assert.is(metadata.get('general.license')?.value, 'MIT');
});

test('it answers questions about svc correctly and admits ignorance on all others', () => {
  assert.ok(
    tally(scored, 'svc').all >= 600 && tally(scored, 'outside').all >= 170 && tally(scored, 'limits').all >= 47,
  );
  for (const part of ['svc', 'outside', 'limits'] as const) {
    const { right, all } = tally(scored, part);
    assert.ok(right >= (BARS[part] ?? 1) * all, `${part}: ${String(right)} of ${String(all)}`);
  }
});

test('it says that it does not know rather than something wrong about svc', () => {
  const { confident, all } = tally(scored, 'svc');
  assert.ok(confident <= CONFIDENTLY_WRONG_BAR * all, `${String(confident)} of ${String(all)} confidently wrong`);
});

test('its everyday facts are right', () => {
  const facts = scored.filter(({ question }) => question.part === 'facts');
  assert.ok(facts.length >= 140);
  assert.equal(
    facts.filter(({ right }) => !right).map(({ question, answer }) => [question.turns[0], answer]),
    [],
  );
});

test('what it was taught it says word for word, numbers included', async () => {
  const texts = new Set([...readAnswers().values()].flat());
  const questions = readLearned();
  assert.ok(questions.length >= 500);
  const answers = await ask(
    builtinModelPath(),
    questions.map((question) => ({ turns: [question] })),
  );
  assert.equal(
    answers.flatMap((answer, i) => (texts.has(answer) ? [] : [[questions[i], answer]])),
    [],
  );
});

/** What a stranger sends to it first: the README has the one, `npm start` the other. */
test('it answers what its own pages and programs ask', async () => {
  const text = (path: string): string => readFileSync(fileURLToPath(new URL(`../../${path}`, import.meta.url)), 'utf8');
  const questions = [
    ...['README.md', 'docs/install.md'].flatMap((page) =>
      [...(text(page).split('## First real model')[0] ?? '').matchAll(/^svc run "(.+)"$/gm)].map(([, asked]) => asked),
    ),
    .../DEFAULT_ARGUMENTS = .*'(.+)'\]/.exec(text('scripts/start.js'))!.slice(1),
  ] as string[];
  assert.ok(questions.length >= 3);
  const unknown = readAnswers().get(UNKNOWN) ?? [];
  const answers = await ask(
    builtinModelPath(),
    questions.map((question) => ({ turns: [question] })),
  );
  assert.equal(
    questions.filter((_, i) => unknown.includes(answers[i] ?? '')),
    [],
  );
});

test('no answer names a command or flag that does not exist', () => {
  assert.equal(
    scored.flatMap(({ answer, invented }) => (invented.length > 0 ? [[answer, ...invented]] : [])),
    [],
  );
  const learned = [...readAnswers().values()].flat();
  assert.equal(learned.flatMap(inventedIn), []);
});

test('the command check detects invented commands', () => {
  assert.equal(inventedIn('Run `svc dance`.'), ['svc dance']);
  assert.equal(inventedIn('Run `svc stop --gently`.'), ['svc stop --gently']);
  assert.equal(inventedIn('Add `--sparkle`.'), ['--sparkle']);
  assert.equal(
    inventedIn('`cat notes.txt | svc run "what --if"`, `svc logs -f`, `svc pull NAME`, `svc COMMAND --help`'),
    [],
  );
});

test.run();
