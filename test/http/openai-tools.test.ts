/** Tools of chat completions, the choice among them, and their calls. */
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import type { SvcError } from '../../src/protocol/errors.ts';
import { parseChatCompletion } from '../../src/protocol/openai/chat-request.ts';
import { invalid, renamedTo } from '../../src/protocol/validate.ts';

const chat = (fields: object) => parseChatCompletion({ messages: [{ role: 'user', content: 'hi' }], ...fields });

/** Field that is refused. */
function refusal(fields: object): string | undefined {
  try {
    chat(fields);
  } catch (error) {
    return (error as SvcError).param;
  }
  throw new Error(`it was not refused: ${JSON.stringify(fields)}`);
}

test('tools, their calls, and images', () => {
  const call = { id: 'c1', type: 'function', function: { name: 'weather', arguments: '{"city":"Oslo"}' } };
  const { request } = chat({
    messages: [
      {
        role: 'user',
        content: [
          { type: 'text', text: 'What is this?' },
          { type: 'image_url', image_url: { url: 'data:image/png;base64,iVBORw0KGgo=', detail: 'low' } },
          { type: 'image_url', image_url: { url: 'https://example.com/a.png' } },
        ],
      },
      { role: 'assistant', tool_calls: [call], reasoning_content: 'hm' },
      { role: 'tool', content: 'rain', tool_call_id: 'c1' },
    ],
    tools: [{ type: 'function', function: { name: 'weather', parameters: { type: 'object' } } }],
    tool_choice: { type: 'function', function: { name: 'weather' } },
    parallel_tool_calls: false,
    reasoning_effort: 'max',
  });
  assert.equal(request.messages, [
    {
      role: 'user',
      content: [
        { type: 'text', text: 'What is this?' },
        { type: 'image', media_type: 'image/png', data: 'iVBORw0KGgo=' },
        { type: 'image_url', url: 'https://example.com/a.png' },
      ],
    },
    {
      role: 'assistant',
      content: '',
      reasoning: 'hm',
      tool_calls: [{ id: 'c1', name: 'weather', arguments: '{"city":"Oslo"}' }],
    },
    { role: 'tool', content: 'rain', tool_call_id: 'c1' },
  ]);
  assert.equal(request.tools, [{ name: 'weather', parameters: { type: 'object' } }]);
  assert.equal(request.tool_choice, { name: 'weather' });
  assert.is(request.parallel_tool_calls, false);
  assert.is(request.reasoning_effort, 'xhigh');
});

const LOOK = { type: 'function', function: { name: 'look' } };
const SEE = { type: 'function', function: { name: 'see', description: null, strict: null } };
const PATCH = { type: 'custom', custom: { name: 'patch' } };
const SEARCH = { type: 'web_search', search_context_size: 'low' };

test('tools of other types than function are passed over, and listed', () => {
  const tools = [PATCH, LOOK, SEARCH, SEE, PATCH];
  const call = chat({ tools, tool_choice: 'required', parallel_tool_calls: true });
  assert.equal(call.request.tools, [
    { name: 'look', parameters: {} },
    { name: 'see', parameters: {} },
  ]);
  assert.equal(call.ignoredTools, ['custom', 'web_search']);
  const nameOf = (param: string): unknown => (renamedTo(invalid(param, 'is odd'), call.names) as SvcError).message;
  assert.is(nameOf('tools[0].parameters.not'), 'tools[1].parameters.not is odd');
  assert.is(nameOf('tools[1]'), 'tools[3] is odd');

  const group = { type: 'namespace', name: 'files', tools: [LOOK] };
  for (const more of [{}, { tool_choice: 'auto' }, { tool_choice: 'none' }, { parallel_tool_calls: false }]) {
    const { request, ignoredTools } = chat({ tools: [PATCH, group], ...more });
    assert.equal(request, chat({}).request);
    assert.equal(ignoredTools, ['custom', 'namespace']);
  }
  for (const tool_choice of ['required', PATCH, { type: 'function', function: { name: 'patch' } }])
    assert.is(refusal({ tools: [PATCH], tool_choice }), 'tool_choice');
  for (const tool_choice of [PATCH, { type: 'function', function: { name: 'patch' } }])
    assert.is(refusal({ tools: [PATCH, LOOK], tool_choice }), 'tool_choice');
});

test('tool_choice may allow some of the tools', () => {
  const chosen = (mode: string, tools: object[]) => {
    const tool_choice = { type: 'allowed_tools', allowed_tools: { mode, tools } };
    const { request, ignoredTools } = chat({ tools: [PATCH, LOOK, SEE], tool_choice });
    assert.equal(ignoredTools, ['custom']);
    return [request.tools?.map(({ name }) => name), request.tool_choice];
  };
  assert.equal(chosen('required', [SEE]), [['see'], 'required']);
  assert.equal(chosen('auto', [SEE, PATCH, LOOK]), [['look', 'see'], 'auto']);
  assert.equal(chosen('auto', [PATCH]), [undefined, undefined]);
  const tool_choice = { type: 'allowed_tools', allowed_tools: { mode: 'required', tools: [PATCH] } };
  assert.is(refusal({ tools: [PATCH, LOOK], tool_choice }), 'tool_choice');
});

test('calls of custom tools in a history become calls of functions', () => {
  const custom = { id: 'c1', type: 'custom', custom: { name: 'patch', input: 'a\nb' } };
  const { request } = chat({
    messages: [
      { role: 'assistant', content: null, tool_calls: [custom] },
      { role: 'tool', tool_call_id: 'c1', content: 'done' },
    ],
  });
  const made = { id: 'c1', name: 'patch', arguments: '{"input":"a\\nb"}' };
  assert.equal(request.messages[0], { role: 'assistant', content: '', tool_calls: [made] });
});

test.run();
