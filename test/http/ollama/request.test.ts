/** Converts Ollama's requests to ours: fields, options, messages, and the fields that are refused by name. */
import { randomBytes } from 'node:crypto';
import { deflateRawSync } from 'node:zlib';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { parseOllamaChat } from '../../../src/protocol/ollama/chat-request.ts';
import { parseOllamaEmbed, parseOllamaEmbeddings } from '../../../src/protocol/ollama/embed.ts';
import { parseOllamaGenerate, REFUSED_FIELDS } from '../../../src/protocol/ollama/generate-request.ts';
import { parseCopy, parseCreate, parseModelName } from '../../../src/protocol/ollama/models.ts';
import { IGNORED, OptionsSchema, REFUSED } from '../../../src/protocol/ollama/options.ts';
import { toContext } from '../../../src/protocol/ollama/context.ts';
import { LIMITS } from '../../../src/protocol/limits.ts';
import { SvcError } from '../../../src/protocol/errors.ts';
import { read } from '../../architecture/source-files.ts';

const HELLO = [{ role: 'user', content: 'hi' }];
const PNG = Buffer.from('\x89PNG\r\n\x1a\n0123', 'latin1').toString('base64');
const WAV = Buffer.from('RIFF0000WAVEfmt ', 'latin1').toString('base64');

const chat = (more: object) => parseOllamaChat({ model: 'm', messages: HELLO, ...more });
const generate = (more: object) => parseOllamaGenerate({ model: 'm', prompt: 'hi', ...more });

function paramOf(work: () => unknown): string | undefined {
  try {
    work();
  } catch (error) {
    assert.instance(error, SvcError);
    assert.is((error as SvcError).code, 'INVALID_REQUEST');
    return (error as SvcError).param;
  }
  throw new Error('nothing was refused');
}

test('a chat with nothing else streams, and says nothing of what it leaves out', () => {
  assert.equal(chat({}), {
    model: 'm',
    request: { messages: HELLO, sampling: {}, stop: [] },
    turns: null,
    keepAliveSeconds: undefined,
    stream: true,
  });
  assert.equal(parseOllamaChat({ name: 'm', messages: HELLO, tools: null, format: null, options: null }), chat({}));
  assert.is(chat({ stream: false }).stream, false);
});

test('options are sampling, stop strings and the limit', () => {
  const options = {
    temperature: 0.5,
    top_k: -1,
    top_p: 0.9,
    min_p: 0.1,
    typical_p: 0.7,
    repeat_last_n: -1,
    repeat_penalty: 1.1,
    presence_penalty: 0.5,
    frequency_penalty: 0.25,
    mirostat: 2,
    mirostat_tau: 4,
    mirostat_eta: 0.2,
    seed: 7,
    num_predict: 9,
    stop: 'END',
    num_ctx: 4096,
    unknown: [],
    tfs_z: 0.5,
    penalize_newline: false,
  };
  const { request } = chat({ options });
  const { stop, num_predict, num_ctx, unknown, tfs_z, penalize_newline, ...sampling } = options;
  assert.equal(request?.sampling, { ...sampling, top_k: 0, repeat_last_n: 65_536 });
  assert.equal([request?.stop, request?.max_tokens], [['END'], 9]);
  assert.is(request?.context_length, undefined);
  const free = chat({ options: { seed: -1, num_predict: -1, stop: ['a', '', 'b'] } }).request;
  assert.equal([free?.sampling, free?.stop, free?.max_tokens], [{}, ['a', 'b'], undefined]);
  assert.is(chat({ options: { num_predict: -2 } }).request?.max_tokens, undefined);
  assert.equal(chat({ options: { stop: '' } }).request?.stop, []);
});

test('options that cannot be honoured are refused by name', () => {
  for (const [name, value] of [
    ['temperature', 'x'],
    ['seed', 1.5],
    ['num_predict', 10_000_000],
    ['stop', [7]],
    ['logits_all', true],
    ['vocab_only', true],
    ['embedding_only', true],
  ] as const)
    assert.match(String(paramOf(() => chat({ options: { [name]: value } }))), new RegExp(`^options\\.${name}`));
  assert.is(
    paramOf(() => chat({ options: 7 })),
    'options',
  );
});

test('think, format, log probabilities and keep_alive', () => {
  const effortOf = (think: unknown) => chat({ think }).request?.reasoning_effort;
  assert.equal([true, false, 'low', 'max', '', null].map(effortOf), [
    'high',
    'none',
    'low',
    'xhigh',
    undefined,
    undefined,
  ]);
  const formatOf = (format: unknown) => chat({ format }).request?.format;
  assert.equal(formatOf('json'), { type: 'json_object' });
  assert.equal(formatOf({ type: 'object' }), { type: 'json_schema', schema: { type: 'object' }, strict: false });
  assert.is(formatOf(''), undefined);
  assert.is(chat({ logprobs: true }).request?.logprobs, 0);
  assert.is(chat({ logprobs: true, top_logprobs: 3 }).request?.logprobs, 3);
  const { keepAliveSeconds, request } = chat({ keep_alive: '5m' });
  assert.equal([keepAliveSeconds, request?.keep_alive_seconds], [300, 300]);
  assert.is(chat({ keep_alive: -1 }).keepAliveSeconds, -1);
  assert.is(chat({ truncate: true }).request?.truncate, true);

  assert.is(
    paramOf(() => chat({ think: 'deep' })),
    'think',
  );
  assert.is(
    paramOf(() => chat({ format: 'yaml' })),
    'format',
  );
  assert.is(
    paramOf(() => chat({ top_logprobs: 3 })),
    'top_logprobs',
  );
  assert.is(
    paramOf(() => chat({ keep_alive: 'long' })),
    'keep_alive',
  );
  assert.is(
    paramOf(() => chat({ stream: 'yes' })),
    'stream',
  );
  assert.is(
    paramOf(() => parseOllamaChat({ messages: HELLO })),
    'model',
  );
  assert.is(
    paramOf(() => parseOllamaChat([])),
    undefined,
  );
});

test('pictures and sounds stand before the text of their message', () => {
  const messages = [{ role: 'user', content: 'What?', images: [PNG, WAV] }];
  assert.equal(chat({ messages }).request?.messages, [
    {
      role: 'user',
      content: [
        { type: 'image', media_type: 'image/png', data: PNG },
        { type: 'audio', media_type: 'audio/wav', data: WAV },
        { type: 'text', text: 'What?' },
      ],
    },
  ]);
  assert.equal(generate({ images: [PNG] }).request?.messages[0]?.content, [
    { type: 'image', media_type: 'image/png', data: PNG },
    { type: 'text', text: 'hi' },
  ]);
  const broken = `${PNG.slice(0, 5)}\r\n${PNG.slice(5)}\n`;
  assert.equal(generate({ images: [broken] }), generate({ images: [PNG] }));
  for (const data of ['aGVsbG8=', `${PNG}-`, ''])
    assert.is(
      paramOf(() => chat({ messages: [{ role: 'user', images: [PNG, data] }] })),
      'messages[0].images[1]',
    );
  assert.is(
    paramOf(() => generate({ images: ['x'] })),
    'images[0]',
  );
});

test('wrong messages are refused by name', () => {
  assert.is(
    paramOf(() => chat({ messages: [{ role: 'user', tool_calls: [{ function: { name: 'a' } }] }] })),
    'messages[0].tool_calls',
  );
  assert.is(
    paramOf(() => chat({ messages: [{ role: 'judge' }] })),
    'messages[0].role',
  );
  const text = { function: { name: 'a', arguments: '{}' } };
  const wrong = [{ role: 'assistant', tool_calls: [text] }];
  assert.is(
    paramOf(() => chat({ messages: wrong })),
    'messages[0].tool_calls[0].function.arguments',
  );
});

test('tools are those of OpenAI', () => {
  const tool = { name: 'a', description: 'b', parameters: { type: 'object' } };
  assert.equal(chat({ tools: [{ type: 'function', function: tool }] }).request?.tools, [tool]);
  assert.is(chat({ tools: [] }).request?.tools, undefined);
  assert.is(
    paramOf(() => chat({ tools: 'x' })),
    'tools',
  );
});

test('a prompt is a chat of one turn; without one the model is only loaded', () => {
  assert.equal(generate({ system: 'Be brief.' }).request?.messages, [
    { role: 'system', content: 'Be brief.' },
    ...HELLO,
  ]);
  assert.is(generate({ prompt: '' }).request, null);
  assert.is(chat({ messages: [] }).request, null);
  assert.is(parseOllamaChat({ model: 'm' }).request, null);
  for (const [name, value] of [
    ['template', 'x'],
    ['width', 64],
    ['height', 64],
    ['steps', 3],
  ] as const)
    assert.is(
      paramOf(() => generate({ [name]: value })),
      name,
    );
  assert.ok(generate({ template: '', raw: false, suffix: '', context: [], width: 0 }).request);
  assert.is(
    paramOf(() => generate({ prompt: 7 })),
    'prompt',
  );
});

test('raw prompts and gaps have no chat', () => {
  const plain = { messages: [], sampling: {}, stop: [] };
  const { request, turns } = generate({ raw: true, think: false });
  assert.equal([request, turns], [{ ...plain, raw: { text: 'hi' } }, null]);
  const infill = { prefix: 'hi', suffix: '!', extra: [] };
  assert.equal(generate({ suffix: '!' }).request, { ...plain, raw: { text: '', infill } });
  assert.ok(generate({ prompt: '', suffix: '!' }).request, 'a gap at the beginning of a text');
  assert.is(generate({ prompt: '', raw: true }).request, null);
  for (const [name, value] of [
    ['system', 'x'],
    ['images', [PNG]],
    ['context', [1]],
    ['think', true],
  ] as const)
    for (const mode of [{ raw: true }, { suffix: '!' }])
      assert.is(
        paramOf(() => generate({ ...mode, [name]: value })),
        name,
      );
  assert.is(
    paramOf(() => generate({ raw: true, suffix: '!' })),
    'suffix',
  );
  for (const [name, value] of [
    ['raw', 'yes'],
    ['suffix', 1],
  ] as const)
    assert.is(
      paramOf(() => generate({ [name]: value })),
      name,
    );
});

test('a context is the conversation before the prompt', () => {
  const { turns } = generate({ system: 'Be brief.' });
  const context = toContext(turns ?? [], 'Hello \u{1F600}');
  const earlier = [
    { role: 'system', content: 'Be brief.' },
    ...HELLO,
    { role: 'assistant', content: 'Hello \u{1F600}' },
  ];
  const next = { role: 'user', content: 'And?' };
  const second = generate({ prompt: 'And?', context });
  assert.equal(second.request?.messages, [...earlier, next]);
  assert.equal(second.turns, [...earlier, next]);
  const replaced = generate({ prompt: 'And?', context, system: 'Be loud.' });
  assert.equal(replaced.request?.messages, [{ role: 'system', content: 'Be loud.' }, ...earlier.slice(1), next]);
  assert.equal(generate({ context: [] }).request, generate({}).request);
  const pictured = toContext(generate({ images: [PNG] }).turns ?? [], 'A dog.');
  assert.equal(generate({ context: pictured }).request?.messages.slice(0, 2), [
    ...HELLO,
    { role: 'assistant', content: 'A dog.' },
  ]);
});

test('a context has a limit, and no other content', () => {
  // Random bytes cannot be compressed; prose can, and has room for long conversations.
  const random = randomBytes(4 * LIMITS.ollamaContext).toString('base64');
  assert.is(toContext([], random), undefined);
  assert.is(toContext([], 'x'.repeat(2 ** 20)), undefined);
  const prose = read('docs/http.md').repeat(4).slice(0, 200_000);
  const context = toContext([], prose) ?? [];
  assert.equal(generate({ context }).request?.messages[0], { role: 'assistant', content: prose });
  assert.ok(context.every((each) => Number.isInteger(each) && each >= 0 && each <= 0xffff));
  // Ollama's own client reads lines of up to 512 KiB.
  assert.ok(LIMITS.ollamaContext * '65535,'.length < 500 * 1024);
});

test('no other list is a context', () => {
  const many = Array.from({ length: LIMITS.ollamaContext + 1 }, () => 32);
  const tokens = [128_006, 9125, 128_007, 271];
  const packed = (text: string): number[] => {
    const bytes = Buffer.concat([deflateRawSync(text), Buffer.alloc(1)]);
    return Array.from({ length: bytes.length >> 1 }, (_, at) => bytes.readUInt16BE(2 * at));
  };
  assert.ok(generate({ context: packed('[{"role":"user","content":"x"}]') }).request);
  const tool = packed('[{"role":"tool","content":"x"}]');
  const bomb = packed(`[{"role":"user","content":"x"}]${' '.repeat(2 ** 22)}`);
  const cut = toContext([], 'Hello')?.slice(0, -1);
  for (const context of ['x', [1.5], [-1], [0x1_0000], [1], many, tokens, tool, bomb, cut])
    assert.match(String(paramOf(() => generate({ context }))), /^context/);
});

test('texts to embed, cut unless that is refused', () => {
  assert.equal(parseOllamaEmbed({ model: 'm', input: 'a' }).requests, [{ input: ['a'], truncate: true }]);
  const { requests, keepAliveSeconds } = parseOllamaEmbed({
    model: 'm',
    input: ['a', 'b'],
    truncate: false,
    dimensions: 4,
    keep_alive: 0,
    options: { num_ctx: 5 },
  });
  assert.equal(requests, [{ input: ['a', 'b'], truncate: false, dimensions: 4, keep_alive_seconds: 0 }]);
  assert.is(keepAliveSeconds, 0);
  for (const input of ['', [], undefined]) assert.equal(parseOllamaEmbed({ model: 'm', input }).requests, []);
  assert.equal(parseOllamaEmbeddings({ model: 'm', prompt: 'a' }).requests[0]?.input, ['a']);
  assert.equal(parseOllamaEmbeddings({ model: 'm' }).requests, []);
  assert.is(
    paramOf(() => parseOllamaEmbed({ model: 'm', input: 7 })),
    'input',
  );
  assert.is(
    paramOf(() => parseOllamaEmbed({ model: 'm', input: [{}] })),
    'input[0]',
  );
  assert.is(
    paramOf(() => parseOllamaEmbeddings({ model: 'm', prompt: [] })),
    'prompt',
  );
});

test('requests about the store', () => {
  for (const body of [{ name: 7 }, { name: 7, model: 'b' }, { name: '', model: 'b' }])
    assert.is(
      paramOf(() => parseModelName(body)),
      'name',
    );
  assert.is(parseModelName({ name: 'a' }), 'a');
  assert.is(parseModelName({ name: 'a', model: 'b' }), 'b');
  assert.equal(parseCopy({ source: 'a', destination: 'b:latest' }), { source: 'a', destination: 'b' });
  assert.equal(parseCreate({ model: 'm:latest', from: 'a', license: 'MIT', template: '', files: {} }), {
    model: 'm',
    from: 'a',
    system: '',
    parameters: {},
    stream: true,
  });
  for (const name of ['modelfile', 'template', 'quantize', 'adapters', 'files', 'messages'])
    assert.is(
      paramOf(() => parseCreate({ model: 'm', from: 'a', [name]: { x: 'y' } })),
      name,
    );
  assert.is(
    paramOf(() => parseCreate({ model: 'm' })),
    'from',
  );
  assert.is(
    paramOf(() => parseCopy({ source: 'a' })),
    'destination',
  );
});

test('docs/ollama.md has every option, and what is refused, with the reason', () => {
  const rows = read('docs/ollama.md')
    .split('\n')
    .filter((line) => line.startsWith('| `'))
    .map((line) => line.split('|').map((cell) => cell.trim()));
  const cells = (name: string): string[] | undefined =>
    rows.find(([, names = '']) => names.split(', ').includes(`\`${name}\``))?.slice(2, 4);
  for (const [name, why] of Object.entries(IGNORED)) assert.equal(cells(name), ['ignored', why], name);
  for (const [name, [, why]] of Object.entries({ ...REFUSED, ...REFUSED_FIELDS }))
    assert.equal(cells(name), ['refused', why], name);
  for (const name of Object.keys(OptionsSchema.entries)) assert.is(cells(name)?.[0], 'honoured', name);
});

test.run();
