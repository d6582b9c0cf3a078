/** Helpers for tests of hostile or broken HTTP clients. */
import * as assert from 'uvu/assert';
import { ask } from './ask.ts';
import { startScripted, type ScriptedListener } from './scripted.ts';

export const PATH = '/v1/chat/completions';
export const MESSAGES = [{ role: 'user', content: 'hi' }];
export const MIB = 1024 * 1024;

export function post(body: string): string {
  return `POST ${PATH} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: ${String(body.length)}\r\n\r\n${body}`;
}

export async function alive(listener: ScriptedListener): Promise<void> {
  assert.is((await ask(listener, '/livez')).status, 200);
}

/** Runs `work` with a scripted listener, which must still answer afterwards. */
export async function withListener(
  limits: Parameters<typeof startScripted>[0],
  work: (listener: ScriptedListener) => Promise<void>,
): Promise<void> {
  const listener = await startScripted(limits);
  try {
    await work(listener);
    await alive(listener);
  } finally {
    await listener.stop();
  }
}
