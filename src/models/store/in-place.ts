/**
 * Registers models of other programs where they lie: nothing is copied, and nothing of theirs is written. Unlike with
 * `ModelStore.add`, the projector and the adapters stay in their places, too.
 */
import type { ImportedModel } from '../../protocol/model/import.ts';
import { realpath, stat } from 'node:fs/promises';
import { SvcError } from '../../protocol/errors.ts';
import { given } from '../../protocol/given.ts';
import { checkAdapter } from '../gguf/adapter-file.ts';
import { checkProjector, inspectParts, type GgufSummary } from '../gguf/gguf.ts';
import { filesOfModel } from '../gguf/parts.ts';
import { digestOfWeights } from './adopted.ts';
import { digestOf } from './digest.ts';
import { namesIn } from './lookup.ts';
import { freeId } from './model-id.ts';
import { entryOf } from './record.ts';
import type { Registry, RegistryEntry, RegistryFile, StoredFile } from './registry.ts';

/** Its id is the wanted one. */
export type ForeignModel = Pick<ImportedModel, 'id' | 'source' | 'path' | 'projector' | 'adapters'>;

export interface InPlaceOptions {
  readonly registry: RegistryFile;
  /** Names that the config gives to models. */
  readonly reserved: readonly string[];
  /** Checks each file, behind its links, before it is read. Returns the digest that its name states; null: none. */
  check(path: string): Promise<string | null>;
  /** Ids of the models before this one, if nothing is written. */
  readonly planned: Set<string>;
}

/** A model that is ready to be registered. */
export interface Prepared {
  readonly model: ForeignModel;
  readonly files: readonly string[];
  readonly summary: GgufSummary;
  /** All files with their sizes; to be read for their digests. */
  readonly sizes: ReadonlyMap<string, number>;
  /** Id that it would have now. */
  readonly id: string;
  /** Id of the installed model with these files; null: none is known yet. */
  readonly presentAs: string | null;
}

/** Result for a model. */
export interface Registered {
  readonly id: string;
  /** False: the same model was there already. */
  readonly isNew: boolean;
  /** Ids of its adapters, if it is new. */
  readonly adapters: readonly string[];
}

/** Checks the files without reading the weights. @throws SvcError MODEL_NOT_FOUND, MODEL_INVALID; errors of `check` */
export async function prepare(model: ForeignModel, options: InPlaceOptions): Promise<Prepared> {
  const files = await filesOfModel(model.path);
  const stated: (string | null)[] = [];
  for (const file of files) stated.push(await options.check(file));
  const summary = await inspectParts(files);
  if (model.projector !== null) {
    await options.check(model.projector);
    await checkProjector(model.projector);
  }
  for (const adapter of model.adapters) {
    await options.check(adapter);
    await checkAdapter(adapter, files);
  }
  const sizes = new Map<string, number>();
  for (const file of [...files, ...besides(model)]) sizes.set(file, (await stat(file)).size);
  const registry = await options.registry.read();
  const known = stated.filter((digest) => digest !== null);
  const digest = known.length === files.length ? digestOfWeights(known) : undefined;
  const older = await olderIn(registry, model, files);
  const present = await presentIn(registry, files[0] ?? '', digest, summary);
  const id = newIdFor(model, registry, older, options);
  if (present === undefined) options.planned.add(id.toLowerCase());
  return { model, files, summary, sizes, id, presentAs: present ?? null };
}

/**
 * Reads all files for their digests and writes the model to the registry.
 * @param onProgress bytes done of this model
 * @param complete called for a new model before the registry is written; if it rejects, nothing is written
 * @throws SvcError MODEL_INVALID if a file does not match the digest that its name states; CANNOT_WRITE, BUSY; errors
 * of `complete`
 */
export async function register(
  { model, files, summary, sizes }: Prepared,
  options: InPlaceOptions,
  onProgress: (doneBytes: number) => void,
  complete: (added: Registered) => Promise<void> = () => Promise.resolve(),
): Promise<Registered> {
  const stored = new Map<string, StoredFile & { path: string }>();
  let before = 0;
  for (const [path, size] of sizes) {
    const stated = await options.check(path);
    const digest = await digestOf(path, (done) => onProgress(before + done));
    if (stated !== null && stated !== digest) {
      throw new SvcError('MODEL_INVALID', `${path} does not match its name (SHA-256 mismatch)`);
    }
    stored.set(path, { digest, size_bytes: size, path });
    before += size;
  }
  const at = (path: string): StoredFile & { path: string } => stored.get(path) as StoredFile & { path: string };
  const weights = files.map((file) => ({ digest: at(file).digest, size_bytes: at(file).size_bytes }));
  const digest = digestOfWeights(weights.map((each) => each.digest));
  return await options.registry.update(async (registry): Promise<Registered> => {
    const older = await olderIn(registry, model, files);
    const present = await presentIn(registry, files[0] ?? '', digest, summary);
    if (present !== undefined) return { id: present, isNew: false, adapters: [] };
    const id = newIdFor(model, registry, older, { ...options, planned: new Set() });
    registry.models = registry.models.filter((each) => !older.includes(each));
    const adapters = model.adapters.map((path, index) => ({
      id: index === 0 ? 'adapter' : `adapter-${index + 1}`,
      base: digest,
      ...at(path),
    }));
    const entry: RegistryEntry = {
      ...entryOf(id, files[0] ?? '', weights, summary),
      source: model.source,
      ...given({
        projector: model.projector === null ? undefined : at(model.projector),
        adapters: adapters.length === 0 ? undefined : adapters,
      }),
    };
    registry.models.push(entry);
    const added = { id, isNew: true, adapters: adapters.map((each) => each.id) };
    await complete(added);
    return added;
  });
}

function besides({ projector, adapters }: ForeignModel): string[] {
  return [...(projector === null ? [] : [projector]), ...adapters];
}

/** Id of the registered model with this file, unchanged, or with this content in a file of its own. */
async function presentIn(
  registry: Registry,
  path: string,
  digest: string | undefined,
  { size_bytes, modified_at_ms }: GgufSummary,
): Promise<string | undefined> {
  const real = await realpath(path).catch(() => path);
  for (const entry of registry.models) {
    const isUnchanged =
      (entry.path === path || entry.path === real) &&
      entry.size_bytes === size_bytes &&
      entry.modified_at_ms === modified_at_ms;
    if (isUnchanged || (entry.digest === digest && (await isThere(entry)))) return entry.id;
  }
  return undefined;
}

/**
 * Entries of the model from before its file changed, or got another path: Ollama's paths have the digest, those of the
 * hub's cache the revision. Models that the user has added or pulled are not among them.
 */
async function olderIn(registry: Registry, model: ForeignModel, [first]: readonly string[]): Promise<RegistryEntry[]> {
  const older: RegistryEntry[] = [];
  for (const entry of registry.models) {
    if (entry.path === null || entry.source !== model.source) continue;
    if (entry.path === first || !(await isThere(entry))) older.push(entry);
  }
  return older;
}

/** False if the file outside the store is gone, or has another size than the model's. */
async function isThere({ path, size_bytes, parts: [first] = [] }: RegistryEntry): Promise<boolean> {
  if (path === null) return true;
  return (await stat(path).catch(() => null))?.size === (first?.size_bytes ?? size_bytes);
}

/** Its older version gives it the id, which may be that of the default model. */
function newIdFor(
  { id }: ForeignModel,
  registry: Registry,
  [older]: readonly RegistryEntry[],
  { reserved, planned }: InPlaceOptions,
): string {
  return older?.id ?? freeId(id, new Set([...namesIn(registry, reserved), ...planned]));
}
