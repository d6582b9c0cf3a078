/** Tools that a client loads during a conversation, as Claude Code does with its ToolSearch. */
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { parseCountTokens, parseMessages } from '../../../src/protocol/anthropic/messages-request.ts';
import type { GenerateRequest } from '../../../src/protocol/generate.ts';
import { recording } from '../agents/recording.ts';

const tool = (name: string, more: object = {}): object => ({ name, input_schema: { type: 'object' }, ...more });
const deferred = (name: string): object => tool(name, { defer_loading: true });

const TOOLS = [tool('ToolSearch'), deferred('WebFetch'), deferred('Other')];
const ASKED = [
  { role: 'user', content: 'Fetch a page.' },
  {
    role: 'assistant',
    content: [{ type: 'tool_use', id: 'a', name: 'ToolSearch', input: { query: 'select:WebFetch' } }],
  },
];
const found = (...names: string[]): object => ({
  role: 'user',
  content: [
    {
      type: 'tool_result',
      tool_use_id: 'a',
      content: names.map((tool_name) => ({ type: 'tool_reference', tool_name })),
    },
  ],
});

function requestOf(fields: object): GenerateRequest {
  const { request } = parseMessages({
    max_tokens: 5,
    messages: [...ASKED, found('WebFetch')],
    tools: TOOLS,
    ...fields,
  });
  const { max_tokens: _, ...prompt } = request;
  const counted = parseCountTokens({ messages: [...ASKED, found('WebFetch')], tools: TOOLS, ...fields });
  assert.equal(counted.request, prompt);
  return request;
}
const offeredIn = (fields: object): unknown => requestOf(fields).tools?.map(({ name }) => name);

test('the result of a search for tools says which can be called now', () => {
  const content = requestOf({ messages: [...ASKED, found('WebFetch', 'Other')] }).messages.at(-1)?.content;
  assert.is(content, 'The tool WebFetch is loaded and can be called.\nThe tool Other is loaded and can be called.');
});

test('a deferred tool is offered once a result refers to it', () => {
  assert.equal(offeredIn({ messages: ASKED.slice(0, 1) }), ['ToolSearch']);
  assert.equal(offeredIn({}), ['ToolSearch', 'WebFetch']);
  const later = [{ role: 'assistant', content: 'Done.' }, ASKED[0]];
  assert.equal(offeredIn({ messages: [...ASKED, found('Other'), ...later] }), ['ToolSearch', 'Other']);
});

test('a deferred tool that must be called is offered', () => {
  assert.equal(offeredIn({ tool_choice: { type: 'tool', name: 'Other' } }), ['ToolSearch', 'WebFetch', 'Other']);
});

test("deferred tools are offered at once if they were to be found by Anthropic's own search", () => {
  const search = { type: 'tool_search_tool_bm25_20251119', name: 'tool_search_tool_bm25' };
  const messages = ASKED.slice(0, 1);
  assert.equal(offeredIn({ messages, tools: [search, ...TOOLS] }), ['ToolSearch', 'WebFetch', 'Other']);
});

test('the tool that Claude Code never wants called is not offered', () => {
  const [, turn] = recording('claude-code').turns;
  assert.match(JSON.stringify(turn), 'DeferredToolPlaceholder');
  const names = parseMessages(turn).request.tools?.map(({ name }) => name) ?? [];
  assert.ok(names.includes('ToolSearch'));
  assert.not.ok(names.includes('DeferredToolPlaceholder'));
});

test('the places of offered tools are those of the request', () => {
  const { places } = parseMessages({ max_tokens: 5, messages: ASKED, tools: [deferred('a'), tool('b')] });
  assert.equal(places.tools, ['tools[1]']);
});

test.run();
