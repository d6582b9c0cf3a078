/** Path and headers of every request to Gemini's API. */
import { keyHeader } from '../../key-header.ts';
import type { WireTarget } from '../../wire.ts';

/** Only `models/` and `tunedModels/` are valid folders, so that no name can reach another path. */
export function resource(model: string): string {
  const [, folder = 'models', name = model] = /^(models|tunedModels)\/(.+)$/.exec(model) ?? [];
  return `${folder}/${encodeURIComponent(name)}`;
}

export function headers({ key, quirks }: Pick<WireTarget, 'key' | 'quirks'>): Record<string, string> {
  return { ...quirks.headers, ...keyHeader(key, quirks.key_header ?? 'x-goog-api-key') };
}
