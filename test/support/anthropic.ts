/** Anthropic's client of a server, without retries, and its errors. */
import Anthropic, { APIError } from '@anthropic-ai/sdk';
import type { DaemonProcess } from './daemon.ts';
import { failureOf } from './failure.ts';

export function anthropicAt(url: string, apiKey = 'none'): Anthropic {
  return new Anthropic({ baseURL: url, apiKey, maxRetries: 0 });
}

export async function anthropicClient(daemon: DaemonProcess): Promise<Anthropic> {
  const { http } = await daemon.client.status();
  return anthropicAt(`http://${String(http)}`);
}

/** Returns the error of a call of the client. */
export async function anthropicFailure(work: PromiseLike<unknown>): Promise<APIError> {
  return await failureOf(APIError, work);
}

/** Path of the request's field that an error is about. */
export function paramOf(error: APIError): unknown {
  return (error.details as { readonly param?: unknown } | null)?.param;
}
