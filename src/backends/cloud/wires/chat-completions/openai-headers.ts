import { keyHeader } from '../../key-header.ts';
import type { WireTarget } from '../../wire.ts';

/** Headers of every request to an API of OpenAI, with the key. */
export function openAiHeaders({ key, quirks }: Pick<WireTarget, 'key' | 'quirks'>): Record<string, string> {
  return { ...quirks.headers, ...keyHeader(key, quirks.key_header ?? 'authorization') };
}
