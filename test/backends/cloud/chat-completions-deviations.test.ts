/** How deviations of other servers from the streams of OpenAI's Chat Completions are read. */
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { ThinkTags } from '../../../src/backends/cloud/think-tags.ts';
import { chatCompletions as wire } from '../../../src/backends/cloud/wires/chat-completions/chat-completions.ts';
import type { WireEvent } from '../../../src/backends/cloud/wire.ts';
import type { FinishReason } from '../../../src/protocol/generate.ts';
import { cpuMs } from '../../support/cpu-time.ts';
import { callPiece, MODEL, piece } from './recorded-chat-completions.ts';
import { answer, joined, type Recorded } from './wire-support.ts';

const STARTED = { type: 'started', model: MODEL } as const;
const text = (words: string): WireEvent => ({ type: 'text', text: words });
const thought = (words: string): WireEvent => ({ type: 'reasoning', text: words });
const finish = (reason: FinishReason): WireEvent => ({ type: 'finish', reason });
const named = (index: number, id: string, name: string, args: string): WireEvent => ({
  type: 'tool_call',
  index,
  id,
  name,
  arguments: args,
});
const more = (index: number, args: string): WireEvent => ({ type: 'tool_call', index, arguments: args });
const counted = (input_tokens: number, output_tokens: number, cached_tokens = 0): WireEvent => ({
  type: 'usage',
  usage: { input_tokens, output_tokens, cached_tokens },
});
const usage = { prompt_tokens: 5, completion_tokens: 2 };

/** Deviations of other servers from OpenAI's stream: recorded events and what they are read as. */
const STREAMS: Readonly<Record<string, readonly [readonly Recorded[], readonly WireEvent[]]>> = {
  'an empty first chunk, as Azure sends it': [
    [[undefined, { choices: [], model: '', prompt_filter_results: [] }], piece({ content: 'Hi' }), piece({}, 'stop')],
    [STARTED, text('Hi'), finish('stop')],
  ],
  'usage in the choice, as Moonshot sends it': [
    [
      piece({ content: 'Hi' }),
      piece({}, null, {
        choices: [{ index: 0, delta: {}, finish_reason: 'stop', usage: { ...usage, cached_tokens: 3 } }],
      }),
    ],
    [STARTED, text('Hi'), finish('stop'), counted(5, 2, 3)],
  ],
  'usage in x_groq': [
    [piece({ content: 'Hi' }), piece({}, 'stop', { x_groq: { id: 'req', usage } })],
    [STARTED, text('Hi'), finish('stop'), counted(5, 2)],
  ],
  'usage as DeepSeek counts it': [
    [piece({ content: 'Hi' }, 'length', { usage: { ...usage, prompt_cache_hit_tokens: 1 } })],
    [STARTED, text('Hi'), finish('length'), counted(5, 2, 1)],
  ],
  'an empty role, as MiniMax sends it': [
    [piece({ role: '', content: 'Hi' }, null, { base_resp: { status_code: 0, status_msg: '' } }), piece({}, 'stop')],
    [STARTED, text('Hi'), finish('stop')],
  ],
  'reasoning in reasoning_content': [
    [piece({ reasoning_content: 'hm', content: null }), piece({ content: '<think>x' }), piece({}, 'stop')],
    [STARTED, thought('hm'), text('<think>x'), finish('stop')],
  ],
  'reasoning in both fields, as vLLM sends it': [
    [piece({ reasoning_content: 'hm', reasoning: 'hm' }), piece({ content: 'Hi' }, 'stop')],
    [STARTED, thought('hm'), text('Hi'), finish('stop')],
  ],
  'reasoning in parts, as Mistral sends it': [
    [
      piece({ content: [{ type: 'thinking', thinking: [{ type: 'text', text: 'hm' }] }] }),
      piece({ content: [{ type: 'text', text: 'Hi' }] }),
      piece({}, 'stop'),
    ],
    [STARTED, thought('hm'), text('Hi'), finish('stop')],
  ],
  'reasoning in tags': [
    [
      piece({ content: '\n<thi' }),
      piece({ content: 'nk>h' }),
      piece({ content: 'm</think' }),
      piece({ content: '>\n\nHi' }),
      piece({}, 'stop'),
    ],
    [STARTED, thought('h'), thought('m'), text('Hi'), finish('stop')],
  ],
  'text that only looks like a tag': [
    [piece({ content: '<' }), piece({ content: 'b>' }), piece({}, 'stop')],
    [STARTED, text('<b>'), finish('stop')],
  ],
  'an incomplete tag at the end': [
    [piece({ content: '<thi' }), piece({}, 'length')],
    [STARTED, finish('length'), text('<thi')],
  ],
  'white space around calls, as vLLM sends it': [
    [
      piece({ role: 'assistant', content: '' }),
      piece({ content: '\n' }),
      piece({ content: '\n' }),
      callPiece({ index: 0, id: 'a', function: { name: 'weather', arguments: '{' } }),
      piece({ content: '\n' }),
      callPiece({ index: 0, function: { arguments: '}' } }),
      callPiece({ index: 1, id: 'b', function: { name: 'time', arguments: '{}' } }),
      piece({ content: '\n' }),
      piece({}, 'tool_calls'),
    ],
    [STARTED, named(0, 'a', 'weather', '{'), more(0, '}'), named(1, 'b', 'time', '{}'), finish('tool_calls')],
  ],
  'white space between reasoning and a call': [
    [
      piece({ reasoning_content: 'hm' }),
      piece({ content: '\n\n' }),
      callPiece({ index: 0, id: 'a', function: { name: 'time', arguments: '{}' } }),
      piece({ content: '\n' }, 'tool_calls'),
    ],
    [STARTED, thought('hm'), named(0, 'a', 'time', '{}'), finish('tool_calls')],
  ],
  'text with white space around calls': [
    [
      piece({ content: '\n' }),
      piece({ content: 'Look:' }),
      piece({ content: '\n\n' }),
      callPiece({ index: 0, id: 'a', function: { name: 'time', arguments: '{}' } }),
      piece({ content: '\n' }),
      piece({ content: 'Done' }),
      piece({ content: '\n' }),
      piece({}, 'stop'),
    ],
    [
      STARTED,
      text('\nLook:'),
      text('\n\n'),
      named(0, 'a', 'time', '{}'),
      text('\nDone'),
      text('\n'),
      finish('tool_calls'),
    ],
  ],
  'an incomplete tag before a call': [
    [
      piece({ content: '\n<thi' }),
      callPiece({ index: 0, id: 'a', function: { name: 'time', arguments: '{}' } }),
      piece({}, 'tool_calls'),
    ],
    [STARTED, text('\n<thi'), named(0, 'a', 'time', '{}'), finish('tool_calls')],
  ],
  'white space alone': [
    [piece({ content: '\n' }), piece({ content: ' ' }), piece({}, 'stop')],
    [STARTED, finish('stop'), text('\n ')],
  ],
  'white space alone after reasoning': [
    [piece({ reasoning: 'hm' }), piece({ content: '\n' }), piece({ content: ' ' }), piece({}, 'stop')],
    [STARTED, thought('hm'), finish('stop'), text('\n ')],
  ],
  'calls without an index': [
    [
      callPiece({ id: 'a', function: { name: 'weather', arguments: '{' } }),
      callPiece({ function: { arguments: '}' } }),
      callPiece({ id: 'b', function: { name: 'time', arguments: '{}' } }),
      piece({}, 'stop'),
    ],
    [STARTED, named(0, 'a', 'weather', '{'), more(0, '}'), named(1, 'b', 'time', '{}'), finish('tool_calls')],
  ],
  'calls that all have the index 0, as Gemini sends them': [
    [
      piece({
        tool_calls: [
          { index: 0, id: 'a', function: { name: 'weather', arguments: '{}' } },
          { index: 0, id: 'b', function: { name: 'weather', arguments: '{}' } },
        ],
      }),
      piece({}, 'stop'),
    ],
    [STARTED, named(0, 'a', 'weather', '{}'), named(1, 'b', 'weather', '{}'), finish('tool_calls')],
  ],
  'a call without an id, with object arguments and a repeated name': [
    [
      callPiece({ index: 0, function: { name: 'weather', arguments: { x: 1 } } }),
      callPiece({ index: 0, function: { name: 'weather', arguments: '' } }),
      piece({}, 'function_call'),
    ],
    [STARTED, named(0, 'call_chatcmpl-1_0', 'weather', '{"x":1}'), finish('tool_calls')],
  ],
  'arguments before the name': [
    [
      callPiece({ index: 0, id: 'a', function: { arguments: '{' } }),
      callPiece({ index: 0, function: { name: 'weather', arguments: '}' } }),
      piece({}, 'tool_calls'),
    ],
    [STARTED, named(0, 'a', 'weather', '{}'), finish('tool_calls')],
  ],
  'a refusal': [
    [piece({ refusal: 'No.' }), piece({}, 'stop')],
    [STARTED, text('No.'), finish('content_filter')],
  ],
  'a whole message instead of pieces': [
    [
      piece({}, null, {
        choices: [{ message: { role: 'assistant', content: 'Hi' }, finish_reason: 'stop' }],
        usage,
      }),
    ],
    [STARTED, text('Hi'), finish('stop'), counted(5, 2)],
  ],
};
for (const [name, [events, told]] of Object.entries(STREAMS)) {
  test(`deviating answer: ${name}`, () => {
    assert.equal(answer(wire, events), told);
  });
}

test('log probabilities of white space are dropped and held back with it', () => {
  const logprob = (token: string): object => ({ token, bytes: null, logprob: -1 });
  const spoken = (content: string): Recorded =>
    piece({}, null, { choices: [{ index: 0, delta: { content }, logprobs: { content: [logprob(content)] } }] });
  const call = callPiece({ index: 0, id: 'a', function: { name: 'time', arguments: '{}' } });
  const tokensOf = (events: readonly Recorded[]): unknown[] =>
    answer(wire, [...events, piece({}, 'stop')]).flatMap((event) =>
      event.type === 'text' ? [[event.text, event.logprobs?.map(({ token }) => token)]] : [],
    );
  const begun = piece({ reasoning: 'hm' });
  assert.equal(tokensOf([begun, spoken('\n'), call, spoken('\n'), spoken('Hi')]), [['\nHi', ['\n', 'Hi']]]);
  assert.equal(tokensOf([spoken('\n'), call, spoken('Hi')]), [['Hi', ['Hi']]]);
  assert.equal(tokensOf([spoken('\n'), spoken('Hi'), call, spoken(' ')]), [['\nHi', ['\n', 'Hi']]]);
});

test('reasoning and text are the same wherever the pieces are cut', () => {
  const whole = '<think>a < b </thin k></think>\n\nThe <think> answer';
  for (let cut = 0; cut <= whole.length; cut++) {
    for (const second of [cut + 1, cut + 5, cut + 9]) {
      const pieces = [whole.slice(0, cut), whole.slice(cut, second), whole.slice(second)];
      const told = joined(answer(wire, [...pieces.map((content) => piece({ content })), piece({}, 'stop')]));
      assert.equal(told, { text: 'The <think> answer', reasoning: 'a < b </thin k>', calls: [] });
    }
  }
});

test('white space before reasoning or text is read once, however many pieces it comes in', () => {
  for (const [end, expected] of [
    ['<think>a</think> b', { reasoning: 'a', text: 'b' }],
    ['<b', { reasoning: '', text: `${' '.repeat(100_000)}<b` }],
  ] as const) {
    const tags = new ThinkTags();
    const used = cpuMs();
    for (let pieces = 0; pieces < 100_000; pieces++) assert.equal(tags.push(' '), { reasoning: '', text: '' });
    assert.equal(tags.push(end), expected);
    assert.ok(cpuMs() - used < 5000);
  }
});

test.run();
