/**
 * LoRA adapters of added models: copies in the store, named after their content. An adapter was checked against the
 * weights that its model had then; if the model has others now, the adapter is not used until it is added again.
 */
import { rm, stat } from 'node:fs/promises';
import { SvcError } from '../../protocol/errors.ts';
import type { ModelAdapter, ModelRecord } from '../../protocol/records.ts';
import { bring, deleteBlobs } from './adopted.ts';
import { copyWithDigest } from './digest.ts';
import { checkAdapter } from '../gguf/adapter-file.ts';
import { idOf } from './lookup.ts';
import { adapterIdFor, checkAdapterId } from './model-id.ts';
import { cannotWrite, type Registry, type RegistryEntry, type RegistryFile } from './registry.ts';
import type { StorePaths } from './store-paths.ts';
import { faultOf, weightsOf } from './verify.ts';

/** All adapters of a model are in memory with it. */
const MOST_ADAPTERS = 64;

const FAULTS = {
  missing: 'is missing: its file is gone',
  damaged: 'is damaged: its file has changed',
  foreign: 'was added for other weights of this model',
} as const;

export interface AdaptersOptions {
  readonly registry: RegistryFile;
  readonly paths: StorePaths;
  /** As ModelStore.unfinished. */
  unfinished(): Promise<string>;
}

export class Adapters {
  readonly #options: AdaptersOptions;

  constructor(options: AdaptersOptions) {
    this.#options = options;
  }

  /**
   * Copies the adapter `file` into the store. A file that the model has already keeps its id, unless a new name is
   * given.
   * @throws SvcError MODEL_NOT_FOUND, MODEL_INVALID, CANNOT_WRITE; INVALID_REQUEST for a bad name, one that is taken,
   * and a model that takes no adapters
   */
  async add(model: string, file: string, name?: string): Promise<ModelAdapter> {
    if (name !== undefined) checkAdapterId(name);
    const { registry, paths } = this.#options;
    const checked = entryNamed(model, await registry.read());
    const weights = weightsOf(checked, paths).map(({ path }) => path);
    await checkAdapter(file, weights);
    const unfinished = await this.#options.unfinished();
    try {
      const digest = await copyWithDigest(file, unfinished);
      await checkAdapter(unfinished, weights);
      const { size: size_bytes } = await stat(unfinished);
      return await registry.update(async (state) => {
        const entry = entryNamed(checked.id, state);
        const adapters = (entry.adapters ??= []);
        const known = name === undefined ? adapters.find((each) => each.digest === digest) : undefined;
        const id = known?.id ?? newAdapterId(name, file, entry);
        if (known === undefined) adapters.push({ id, digest, size_bytes, base: checked.digest });
        else known.base = checked.digest;
        if (adapters.length > MOST_ADAPTERS) throw tooMany(entry.id);
        state.damaged = state.damaged.filter((each) => each !== digest);
        await bring(unfinished, paths.blob(digest));
        return { id, path: paths.blob(digest), size_bytes };
      });
    } catch (error) {
      throw cannotWrite(error, paths.dir);
    } finally {
      await rm(unfinished, { force: true }).catch(() => undefined);
    }
  }

  /** @throws SvcError MODEL_NOT_FOUND, CANNOT_WRITE; INVALID_REQUEST if the model has no such adapter */
  async remove(model: string, id: string): Promise<void> {
    const { registry, paths } = this.#options;
    await registry.update(async (state) => {
      const entry = entryNamed(model, state);
      const { adapters = [] } = entry;
      const removed = adapters.find((each) => each.id.toLowerCase() === id.toLowerCase());
      if (removed === undefined) {
        throw new SvcError('INVALID_REQUEST', `${entry.id} has no adapter ${JSON.stringify(id)}`, {
          hint: `see what it has: svc model show ${entry.id}`,
          param: 'adapter',
        });
      }
      if (adapters.length === 1) delete entry.adapters;
      else entry.adapters = adapters.filter((each) => each !== removed);
      await deleteBlobs(paths, [removed.digest], state.models);
    });
  }

  /** The adapters for the record of a model whose content is `digest` now; null: it is not known. */
  async of({ adapters }: RegistryEntry, digest: string | null, registry: Registry): Promise<ModelRecord['adapters']> {
    if (adapters === undefined) return undefined;
    const look = async (adapter: NonNullable<RegistryEntry['adapters']>[number]): Promise<ModelAdapter> => {
      const { id, size_bytes } = adapter;
      const path = adapter.path ?? this.#options.paths.blob(adapter.digest);
      const fault =
        (await faultOf(adapter, registry, this.#options.paths)) ?? (adapter.base === digest ? undefined : 'foreign');
      const error = fault === undefined ? {} : { error: `${FAULTS[fault]}; remove it and add it again` };
      return { id, path, size_bytes, ...error };
    };
    return await Promise.all(adapters.map(look));
  }
}

function tooMany(model: string): SvcError {
  return new SvcError('INVALID_REQUEST', `${model} has ${MOST_ADAPTERS} adapters, which is the limit`, {
    hint: `remove one: svc model rm --adapter ID ${model}`,
    param: 'adapter-of',
  });
}

/** The model's entry, if it may have adapters. */
function entryNamed(name: string, registry: Registry): RegistryEntry {
  const id = idOf(name, registry);
  const entry = registry.models.find((each) => each.id === id);
  const refused = (what: string): SvcError =>
    new SvcError('INVALID_REQUEST', `${id} takes no adapters: ${what}`, { param: 'adapter-of' });
  if (entry === undefined) throw refused('it is the built-in model');
  if (!entry.capabilities.includes('completion')) throw refused('it generates no text');
  return entry;
}

function newAdapterId(name: string | undefined, file: string, { id: model, adapters = [] }: RegistryEntry): string {
  const taken = new Set(adapters.map(({ id }) => id.toLowerCase()));
  if (name === undefined) return adapterIdFor(file, taken);
  if (!taken.has(name.toLowerCase())) return name;
  throw new SvcError('INVALID_REQUEST', `${model} has an adapter with this name: ${name}`, {
    hint: `choose another --name, or remove that one: svc model rm --adapter ${name} ${model}`,
    param: 'name',
  });
}
