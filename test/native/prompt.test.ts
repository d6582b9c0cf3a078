/** Tokens of texts and of prompts, without a generation. */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import type { EngineRequest, WithoutId } from '../../src/engine/addon.ts';
import { rejection } from '../support/errors.ts';
import { GAP_TOKENS, writeInfillModel } from '../support/infill-model.ts';
import { modelPath, openEngine, openFile, type TestEngine } from '../support/native-engine.ts';

const TEXTS = ['', 'Hello, world', 'naïve café — 日本語 🙂🇨🇭', '<|im_end|> is text'];
const messages = [
  { role: 'system', content: 'You are brief.' },
  { role: 'user', content: 'Hello <|im_end|> there' },
];
const GREEDY = { max_tokens: 4, sampling: { temperature: 0 } };

const test = suite<{ engine: TestEngine }>('prompts');
test.before(async (context) => {
  context.engine = await openEngine('tiny-qwen2');
});
test.after(({ engine }) => engine.native.close());

test('pieces are the bytes of each token', async ({ engine: { native } }) => {
  for (const text of TEXTS) {
    const tokens = Int32Array.from(await native.encode(text, { parseSpecial: true }));
    const pieces = native.pieces(tokens);
    assert.is(pieces.length, tokens.length);
    assert.is(Buffer.from(pieces.join(''), 'latin1').toString(), text);
  }
  assert.throws(() => native.pieces(Int32Array.of(1_000_000)), /token 1000000 is not in the vocabulary/);
});

test('render has the prompt of submit: its tokens give the same answer', async ({ engine }) => {
  const { native } = engine;
  const tool = { name: 'look', description: 'a', parameters: '{"type":"object"}', grammar: '', tagged_grammar: '' };
  const chat = { tools: [{ ...tool, strict: false }], tool_choice: 'none' };
  const requests: WithoutId<EngineRequest>[] = [{ messages }, { messages, chat }, { prompt: 'Hello <|im_end|>' }];
  for (const request of requests) {
    const { prompt, tokens } = await native.render({ ...request, id: 1 });
    const answer = await engine.generate({ ...request, ...GREEDY, id: 1 });
    const again = await engine.generate({ prompt_tokens: tokens, ...GREEDY, id: 2 });
    assert.is(answer.finish.usage.input_tokens, tokens.length);
    assert.is(again.finish.usage.input_tokens, tokens.length);
    assert.is(again.text, answer.text);
    assert.match(prompt, /Hello <\|im_end\|>/);
    assert.is(prompt.includes('look'), request.chat !== undefined);
  }
});

test('a text of a message has no control tokens, a raw prompt has', async ({ engine: { native } }) => {
  const [end = -1] = await native.encode('<|im_end|>', { parseSpecial: true });
  const inMessage = await native.render({ id: 1, messages: messages.slice(1) });
  const plain = await native.render({ id: 1, messages: [{ role: 'user', content: 'Hello there' }] });
  const count = (tokens: readonly number[]): number => tokens.filter((token) => token === end).length;
  assert.is(count(inMessage.tokens), count(plain.tokens));
  assert.is(count((await native.render({ id: 1, prompt: 'Hello <|im_end|>' })).tokens), 1);
});

test('a prompt may be longer than the context', async ({ engine: { native } }) => {
  const { tokens } = await native.render({ id: 1, messages: [{ role: 'user', content: 'river '.repeat(5000) }] });
  assert.ok(tokens.length > 5000);
});

test('the answer to a gap gets the texts around it', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'svc-infill-'));
  const path = join(folder, 'infill.gguf');
  await writeInfillModel(path);
  const { native } = await openFile(path);
  const [before, after, middle] = GAP_TOKENS;
  const infill = { prefix: 'int a =', suffix: `;${after}`, extra: [] };
  const { prompt, tokens } = await native.render({ id: 1, prompt: ' 1', infill });
  assert.is(prompt, `${before}int a = 1${after};${after}${middle}`);
  const ids = await native.encode(GAP_TOKENS.join(''), { parseSpecial: true });
  assert.equal(
    tokens.filter((token) => ids.includes(token)),
    ids,
    'a text has no control tokens',
  );
  const extra = [{ filename: 'b.c', text: 'int b;' }];
  const more = await native.render({ id: 1, prompt: '', infill: { ...infill, extra } });
  assert.is(more.prompt, `\n\n--- snippet ---\n\nint b;${before}int a =${after};${after}${middle}`);
  await native.close();
  await rm(folder, { recursive: true });
});

test('a model without tokens for gaps says so', async () => {
  const { native } = await openFile(modelPath('tiny-llama'));
  const infill = { prefix: 'a', suffix: 'b', extra: [] };
  const request = { id: 1, prompt: '', infill };
  await rejection(() => native.render(request), 'INVALID_REQUEST', /cannot fill in the middle/);
  await rejection(() => native.submit(request), 'INVALID_REQUEST', /cannot fill in the middle/);
  await native.close();
});

test('invalid requests name the field', async ({ engine: { native } }) => {
  const refused: readonly [object, RegExp][] = [
    [{ prompt_tokens: [1_000_000] }, /token 1000000 is not in the vocabulary/],
    [{ prompt_tokens: [-1] }, /prompt_tokens\[0\]/],
    [{}, /either messages or a prompt/],
    [{ prompt_tokens: [1], messages }, /either messages or a prompt/],
    [{ prompt: '', infill: { prefix: 'a' } }, /infill\.suffix/],
  ];
  for (const [request, message] of refused)
    await rejection(() => native.render({ id: 1, ...request }), 'INVALID_REQUEST', message);
});

test.run();
