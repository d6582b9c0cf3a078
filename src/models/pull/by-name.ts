/** Pulls a model by a typed name; short names are looked up in the catalogue. */
import type { HubSettings, PullRequest } from '../../protocol/routes.ts';
import { findInCatalogue, unknownShortName } from './catalogue.ts';
import type { Puller, Pulled } from './puller.ts';
import { parseOllamaReference, parseReference, type FullReference } from './reference.ts';

/** `ollama`: a name that the catalogue does not have is looked up in Ollama's registry. */
export type Dialect = 'svc' | 'ollama';

/** As Puller.pull. @throws SvcError INVALID_REQUEST, MODEL_NOT_FOUND at once */
export function pullByName(
  puller: Puller,
  { model, sha256, hub }: PullRequest,
  defaults: HubSettings,
  signal: AbortSignal,
  dialect: Dialect = 'svc',
): AsyncGenerator<Pulled, void, undefined> {
  const { reference, names } = resolve(model, sha256, dialect);
  return puller.pull(reference, names, hub ?? defaults, signal);
}

function resolve(
  model: string,
  sha256: string | undefined,
  dialect: Dialect,
): { reference: FullReference; names: readonly string[] } {
  const isOllama = dialect === 'ollama' && !/^(hf:|hf\.co\/|huggingface\.co\/|https?:)/i.test(model);
  const short = !isOllama || !model.includes('/') ? parseReference(model, sha256) : parseOllamaReference(model);
  if (short.kind !== 'short') return { reference: short, names: [] };
  const found = findInCatalogue(short.name);
  if (found !== null) {
    const quantization = short.quantization ?? found.default_quantization;
    const isUsual = quantization.toUpperCase() === found.default_quantization;
    const reference = { kind: 'hub', repo: found.repo, revision: null, file: null, quantization } as const;
    return { reference, names: [isUsual ? found.name : `${found.name}:${quantization.toLowerCase()}`] };
  }
  if (isOllama) return { reference: parseOllamaReference(model), names: [] };
  throw unknownShortName(model);
}
