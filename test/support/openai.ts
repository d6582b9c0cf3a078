/** OpenAI's client of a running daemon: no retries, so that a test sees every error. */
import OpenAI from 'openai';
import type { DaemonProcess } from './daemon.ts';

export function openAiAt(url: string): OpenAI {
  return new OpenAI({ baseURL: `${url}/v1`, apiKey: 'none', maxRetries: 0 });
}

export async function openAiClient(daemon: DaemonProcess): Promise<OpenAI> {
  const { http } = await daemon.client.status();
  return openAiAt(`http://${String(http)}`);
}
