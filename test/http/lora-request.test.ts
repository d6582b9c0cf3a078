/** `lora` of chat completions: llama-server's shape, and what is wrong with it. */
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { parseChatCompletion } from '../../src/protocol/openai/chat-request.ts';
import { rejection } from '../support/errors.ts';

const messages = [{ role: 'user', content: 'Hi' }];
const loraOf = (lora: unknown) => parseChatCompletion({ messages, lora }).request.lora;

test('an adapter is named by its id or its place', () => {
  const legal = { id: 'legal', scale: 0.5 };
  assert.equal(loraOf([legal, { id: 0, scale: -1 }]), [legal, { id: '0', scale: -1 }]);
  assert.equal(loraOf([]), []);
  assert.is(loraOf(null), undefined);
});

test('an invalid value is refused with its place and never quoted', async () => {
  const many = Array.from({ length: 17 }, (_, id) => ({ id, scale: 1 }));
  for (const [lora, param] of [
    [{ id: 'x', scale: 1 }, 'lora'],
    [many, 'lora'],
    [['secret'], 'lora[0]'],
    [[{ id: -1, scale: 1 }], 'lora[0].id'],
    [[{ id: 0.5, scale: 1 }], 'lora[0].id'],
    [[{ id: '', scale: 1 }], 'lora[0].id'],
    [[{ id: 'x' }], 'lora[0].scale'],
    [[...many.slice(0, 1), { id: 1, scale: 'secret' }], 'lora[1].scale'],
    [[{ id: 'x', scale: 101 }], 'lora[0].scale'],
    [[{ id: 'x', scale: -101 }], 'lora[0].scale'],
  ] as const) {
    const error = await rejection(() => loraOf(lora), 'INVALID_REQUEST');
    assert.is(error.param, param);
    assert.not.match(error.message, 'secret');
  }
});

test.run();
