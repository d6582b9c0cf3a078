/** Sounds in messages of OpenAI's chat completions: accepted for local models, refused for providers. */
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { withoutSounds } from '../../src/backends/cloud/message-parts.ts';
import type { SvcError } from '../../src/protocol/errors.ts';
import { parseChatCompletion } from '../../src/protocol/openai/chat-request.ts';

test('sounds, and why others are refused', () => {
  const parse = (part: object): unknown =>
    parseChatCompletion({ messages: [{ role: 'user', content: [part] }] }).request.messages[0]?.content;
  for (const [format, media_type] of [
    ['wav', 'audio/wav'],
    ['mp3', 'audio/mpeg'],
    ['flac', 'audio/flac'],
  ]) {
    const part = { type: 'input_audio', input_audio: { format, data: 'UklGRg==' } };
    assert.equal(parse(part), [{ type: 'audio', media_type, data: 'UklGRg==' }]);
  }
  const refusal = (input_audio: unknown): string | undefined => {
    try {
      parse({ type: 'input_audio', input_audio });
    } catch (error) {
      return (error as SvcError).param;
    }
    return undefined;
  };
  const at = 'messages[0].content[0].input_audio';
  assert.is(refusal({ format: 'ogg', data: 'UklGRg==' }), `${at}.format`);
  assert.is(refusal({ format: 'constructor', data: 'UklGRg==' }), `${at}.format`);
  assert.is(refusal({ format: 'wav', data: '!' }), `${at}.data`);
  assert.is(refusal(null), `${at}.format`);
});

test('no provider gets a sound', () => {
  const image = { type: 'image', media_type: 'image/png', data: 'QUJD' } as const;
  const audio = { type: 'audio', media_type: 'audio/wav', data: 'UklG' } as const;
  assert.is(withoutSounds('text', 'messages[0].content'), 'text');
  assert.equal(withoutSounds([image], 'messages[0].content'), [image]);
  try {
    withoutSounds([image, audio], 'messages[0].content');
  } catch (error) {
    assert.is((error as SvcError).param, 'messages[0].content[1]');
    return;
  }
  assert.unreachable();
});

test.run();
