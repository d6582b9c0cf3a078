/** Registry entries and records of models. */
import { given } from '../../protocol/given.ts';
import type { ModelRecord } from '../../protocol/records.ts';
import { digestOfWeights } from './adopted.ts';
import type { GgufSummary } from '../gguf/gguf.ts';
import type { RegistryEntry, StoredFile } from './registry.ts';

/**
 * @param path null: in the store
 * @param files in their order; more than one: a model in parts
 */
export function entryOf(
  id: string,
  path: string | null,
  files: readonly StoredFile[],
  summary: GgufSummary,
): RegistryEntry {
  return {
    id,
    aliases: [],
    source: 'file',
    path,
    digest: digestOfWeights(files.map(({ digest }) => digest)),
    ...(files.length === 1 ? {} : { parts: [...files] }),
    ...summary,
  };
}

/** Returns the entry, updated from its files. Fields that do not come from the files are kept. */
export function readAgain(
  { id, aliases, source, path, projector, adapters }: RegistryEntry,
  files: readonly StoredFile[],
  summary: GgufSummary,
): RegistryEntry {
  return { ...entryOf(id, path, files, summary), aliases, source, ...given({ projector, adapters }) };
}

/** @param path path of the file, in or outside the store */
export function recordOf(
  { modified_at_ms, parts: _parts, projector: _projector, adapters: _adapters, ...entry }: RegistryEntry,
  path: string,
  isDefault: boolean,
  besides: Pick<ModelRecord, 'projector' | 'adapters'>,
): ModelRecord {
  return {
    ...unknownFile(entry.id, entry.source, path),
    ...entry,
    // An older svc guessed from the template that a model calls tools.
    capabilities: entry.capabilities.filter((capability) => capability !== 'tools'),
    path,
    ...besides,
    default: isDefault,
    modified_at: new Date(modified_at_ms).toISOString(),
  };
}

/** The record of a file of which only the path is known. */
export function unknownFile(id: string, source: string, path: string): ModelRecord {
  return {
    id,
    aliases: [],
    source,
    path,
    digest: null,
    size_bytes: 0,
    format: 'gguf',
    architecture: null,
    parameters: null,
    quantization: null,
    context_length: null,
    capabilities: [],
    capabilities_tried: false,
    license: null,
    state: 'installed',
    default: false,
    builtin: false,
    modified_at: new Date(0).toISOString(),
    loaded: null,
  };
}

/** The fields of a record that come from the file itself. */
export function factsOf({ modified_at_ms, ...facts }: GgufSummary): Partial<ModelRecord> {
  return { ...facts, modified_at: new Date(modified_at_ms).toISOString() };
}
