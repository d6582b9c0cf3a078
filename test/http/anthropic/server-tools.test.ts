/** Histories with tools that another provider ran itself, which a client brings along when it changes to svc. */
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { parseMessages } from '../../../src/protocol/anthropic/messages-request.ts';
import type { SvcError } from '../../../src/protocol/errors.ts';

const SEARCH = { type: 'server_tool_use', id: 's', name: 'web_search', input: { query: 'rain' } };
const PAGE = { type: 'web_search_result', url: 'https://a.example/', title: 'Rain', encrypted_content: 'x' };
const found = (content: unknown): object => ({ type: 'web_search_tool_result', tool_use_id: 's', content });

function answered(...content: object[]): unknown {
  const messages = [
    { role: 'user', content: 'Rain?' },
    { role: 'assistant', content },
    { role: 'user', content: 'And tomorrow?' },
  ];
  return parseMessages({ max_tokens: 5, messages }).request.messages[1];
}

test('what a search has found is kept with titles and addresses', () => {
  const pages = [PAGE, { ...PAGE, title: 'Sun', url: 'https://b.example/' }];
  const [before, after] = ['I look.', 'It rains.'].map((text) => ({ type: 'text', text }));
  assert.equal(answered(before!, SEARCH, found(pages), after!), {
    role: 'assistant',
    content: 'I look.\n[search results]\nRain: https://a.example/\nSun: https://b.example/\nIt rains.',
  });
});

test('all else is dropped', () => {
  const result = (type: string): object => ({ type, tool_use_id: 's', content: { type: 'secret', stdout: 'x' } });
  const results = ['web_fetch', 'code_execution', 'bash_code_execution', 'text_editor_code_execution', 'tool_search'];
  const blocks = results.map((name) => result(`${name}_tool_result`));
  const failed = found({ type: 'web_search_tool_result_error', error_code: 'unavailable' });
  const mcp = [{ ...SEARCH, type: 'mcp_tool_use', server_name: 'm' }, result('mcp_tool_result')];
  const text = { type: 'text', text: 'So.' };
  assert.equal(answered(SEARCH, ...blocks, failed, found([]), ...mcp, text), { role: 'assistant', content: 'So.' });
});

test('a wrong result is refused by name', () => {
  try {
    answered(found([{ ...PAGE, url: 7 }]));
    assert.unreachable();
  } catch (error) {
    assert.is((error as SvcError).param, 'messages[1].content[0].content[0].url');
  }
});

test.run();
