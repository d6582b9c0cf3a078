/** Pictures and sounds in the results of tools, for models that cannot take them. */
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { toChat } from '../../src/backends/local/chat.ts';
import { suited, toEngineRequest } from '../../src/backends/local/request.ts';
import type { EngineInfo } from '../../src/engine/addon.ts';
import type { ContentPart, GenerateRequest, Message } from '../../src/protocol/generate.ts';

const IMAGE = { type: 'image', media_type: 'image/png', data: 'QUJD' } as const;
const WEBP = { ...IMAGE, media_type: 'image/webp' } as const;
const SOUND = { type: 'audio', media_type: 'audio/wav', data: 'UklG' } as const;
const FAR = { type: 'image_url', url: 'https://example.com/a.png' } as const;
const text = (words: string): ContentPart => ({ type: 'text', text: words });

function conversation(content: ContentPart[], results = 1): GenerateRequest {
  const ids = Array.from({ length: results }, (_, index) => `c${String(index)}`);
  const turns = ids.flatMap((id): Message[] => [
    { role: 'assistant', content: '', tool_calls: [{ id, name: 'look', arguments: '{}' }] },
    { role: 'tool', content, tool_call_id: id },
  ]);
  return { messages: [{ role: 'user', content: 'Look' }, ...turns], sampling: {}, stop: [] };
}

type Takes = Pick<EngineInfo, 'sees' | 'hears'>;

/** The last message, as an engine with such a model gets it. */
function taken(content: ContentPart[], info: Takes | null): unknown {
  const request = conversation(content);
  const { messages = [] } = suited(toEngineRequest(request), request, { info: info as EngineInfo | null });
  const { content: words, media } = messages.at(-1) ?? {};
  return [words, media?.map(({ type }) => type) ?? []];
}

test('what the model cannot take becomes a text, the rest stays', () => {
  const content = [text('Here:'), IMAGE, text('and'), SOUND];
  assert.equal(taken(content, { sees: true, hears: true }), ['Here:and', ['image', 'audio']]);
  assert.equal(taken(content, { sees: false, hears: true }), [
    'Here:\n[a picture that this model cannot see]\nand',
    ['audio'],
  ]);
  assert.equal(taken(content, { sees: true, hears: false }), [
    'Here:and\n[a sound that this model cannot hear]',
    ['image'],
  ]);
  assert.equal(taken([WEBP], { sees: true, hears: true }), ['[a picture that this model cannot see]', []]);
  assert.equal(taken(content, null), ['Here:and', ['image', 'audio']]);
});

test('an empty end stays left out', () => {
  const request = conversation([IMAGE]);
  request.messages.push({ role: 'assistant', content: '' });
  const asked = toEngineRequest(request);
  const { messages = [] } = suited(asked, request, { info: { sees: false, hears: false } as EngineInfo });
  assert.equal(
    messages.map(({ role }) => role),
    ['user', 'assistant', 'tool'],
  );
});

test('a picture by URL becomes a text', () => {
  assert.equal(taken([FAR], { sees: true, hears: false }), ['[a picture by URL, which svc does not fetch]', []]);
});

test("the user's own pictures are left to the engine, which refuses them by name", () => {
  const request: GenerateRequest = { messages: [{ role: 'user', content: [IMAGE] }], sampling: {}, stop: [] };
  const asked = toEngineRequest(request);
  const info: Takes = { sees: false, hears: false };
  assert.is(suited(asked, request, { info: info as EngineInfo }), asked);
});

test('of too many, the earliest in results become texts, in steps that the prefix cache outlives', () => {
  const kept = (results: number): number[] =>
    toChat(conversation([IMAGE], results))
      .messages?.filter(({ role }) => role === 'tool')
      .flatMap(({ media }, index) => (media === undefined ? [] : [index])) ?? [];
  assert.equal([kept(64).at(0), kept(64).length], [0, 64]);
  for (const results of [65, 96]) assert.is(kept(results).at(0), 32);
  assert.is(kept(97).at(0), 64);
  assert.is(kept(97).length, 33);
});

test.run();
