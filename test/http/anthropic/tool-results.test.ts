/** Documents that svc cannot read: in results of tools they become a text, in a user's own message they are refused. */
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { parseMessages } from '../../../src/protocol/anthropic/messages-request.ts';
import { SvcError } from '../../../src/protocol/errors.ts';
import type { Message } from '../../../src/protocol/generate.ts';

const PDF = {
  type: 'document',
  title: 'a.pdf',
  source: { type: 'base64', media_type: 'application/pdf', data: 'AAAA' },
};
const BY_URL = { type: 'document', source: { type: 'url', url: 'https://a.example/b.pdf' } };
const FILE = { type: 'document', source: { type: 'file', file_id: 'file_1' } };
const UNREAD = '[a PDF or file that svc cannot read; a tool may extract its text]';
const TURN = [
  { role: 'user', content: 'Read it.' },
  { role: 'assistant', content: [{ type: 'tool_use', id: 'a', name: 'Read', input: {} }] },
];
const result = (content: unknown): object => ({ type: 'tool_result', tool_use_id: 'a', content });

const parsed = (...messages: object[]): readonly Message[] =>
  parseMessages({ max_tokens: 5, messages: [...TURN, ...messages] }).request.messages.slice(2);

test('in a result', () => {
  for (const block of [BY_URL, FILE])
    assert.is(parsed({ role: 'user', content: [result([block])] })[0]?.content, UNREAD);
  const both = result([{ type: 'text', text: 'Read:' }, PDF]);
  assert.is(parsed({ role: 'user', content: [both] })[0]?.content, `Read:\na.pdf\n${UNREAD}`);
});

test('beside a result, where agents put a file that a tool has read', () => {
  const contents = (messages: readonly Message[]): unknown[] => messages.map(({ content }) => content);
  const expected = ['read', `a.pdf\n${UNREAD}`];
  assert.equal(contents(parsed({ role: 'user', content: [result('read'), PDF] })), expected);
  assert.equal(
    contents(parsed({ role: 'user', content: [result('read')] }, { role: 'user', content: [PDF] })),
    expected,
  );
});

test('in a message of the user', () => {
  for (const block of [PDF, BY_URL, FILE]) {
    try {
      parsed(
        { role: 'user', content: [result('read')] },
        { role: 'assistant', content: 'So.' },
        { role: 'user', content: [block] },
      );
      assert.unreachable();
    } catch (error) {
      assert.instance(error, SvcError);
      const { code, param, message } = error as SvcError;
      assert.equal([code, param], ['INVALID_REQUEST', 'messages[4].content[0].source.type']);
      assert.match(message, /svc cannot read PDFs and files; send the text/);
    }
  }
});

test.run();
