/**
 * The models on this machine: the built-in one, and added ones. The file of an added model stays in its place, or is
 * copied into the store.
 *
 *   <dir>/registry.json           the added models (registry.ts)
 *   <dir>/blobs, <dir>/parts      copied and pulled files, named after their content (store-paths.ts)
 *
 * Paths in the store are made only from checked digests (store-paths.ts), never from a name or an id.
 *
 * A record describes the file as it is now. The registry's facts are valid while the file has the size and the time
 * that it had when it was added; a file that has changed since is read again and has no digest.
 */
import { rm, stat } from 'node:fs/promises';
import { isAbsolute, resolve } from 'node:path';
import { makeDirectory } from '../../files/make-directory.ts';
import { SvcError } from '../../protocol/errors.ts';
import { BUILTIN_ID } from '../../protocol/model/named.ts';
import { given } from '../../protocol/given.ts';
import type { VerifyResult } from '../../protocol/model/verify.ts';
import { triedFields, type TriedCapability, type ModelRecord } from '../../protocol/records.ts';
import { Adapters } from './adapters.ts';
import { adopt } from './adopt.ts';
import {
  bring,
  deleteFiles,
  digestOfWeights,
  holds,
  placesOf,
  type FetchedFile,
  type FetchedModel,
} from './adopted.ts';
import { builtinFailure } from './builtin.ts';
import { copyWithDigest, digestOf, DigestsOnce, versionOf, type OnProgress } from './digest.ts';
import { FileFacts } from '../gguf/file-facts.ts';
import { checkProjector, inspectParts, modelFileError, type GgufSummary } from '../gguf/gguf.ts';
import { checkFree, defaultIdOf, idOf, newId, placeFor, removable, type NewModel } from './lookup.ts';
import { checkModelId } from './model-id.ts';
import { wholeName } from '../gguf/part-names.ts';
import { filesOfModel } from '../gguf/parts.ts';
import { projectorBeside } from './projector-beside.ts';
import { entryOf, factsOf, readAgain, recordOf, unknownFile } from './record.ts';
import { cannotWrite, RegistryFile, type Registry, type RegistryEntry, type StoredFile } from './registry.ts';
import { StorePaths } from './store-paths.ts';
import { keyOfFindings, TriedCapabilities, type TriedPlace } from './tried.ts';
import { faultOf, isDamaged, mendingOf, Verification, weightsOf, type OnVerified } from './verify.ts';

export interface ModelStoreOptions {
  /** Created when the first model is added. */
  readonly dir: string;
  readonly builtinPath: string;
  /** Where the findings of loads are kept; absent: in memory. */
  readonly tried?: TriedPlace;
  /** Returns the names that the config gives to models; no model is added by one of them. */
  reserved?(): readonly string[];
  /** Called after each change that this store has made to the list of models or to their files. Never throws. */
  onChange?(): void;
}

export interface AddOptions {
  /** The id. Absent: made from the file's name. */
  readonly name?: string;
  /** Copies the file into the store. */
  readonly copy?: boolean;
  /** File of its projector, which is copied into the store. */
  readonly projector?: string;
  readonly onProgress?: OnProgress;
}

/** A record, and the error if its file cannot be loaded. */
export interface Looked {
  readonly record: ModelRecord;
  readonly failure?: SvcError;
}

const FILE_PREFIX = 'file:';

/** Instances and processes may share a directory. Nothing is held open. */
export class ModelStore {
  /** LoRA adapters of the added models. */
  readonly adapters: Adapters;
  readonly #dir: string;
  readonly #paths: StorePaths;
  readonly #builtinPath: string;
  readonly #registry: RegistryFile;
  readonly #tried: TriedCapabilities;
  readonly #reserved: () => readonly string[];
  /** Summaries of files that the registry does not describe, so that not every request reads a vocabulary. */
  readonly #inspected = new FileFacts({ read: inspectParts });
  readonly #builtinDigest = new FileFacts({ read: async ([path = '']) => await digestOf(path) });

  constructor({ dir, builtinPath, tried, reserved = () => [], onChange }: ModelStoreOptions) {
    this.#reserved = reserved;
    this.#dir = dir;
    this.#paths = new StorePaths(dir);
    this.#builtinPath = builtinPath;
    this.#registry = new RegistryFile(dir, onChange);
    const unfinished = async (): Promise<string> => await this.unfinished();
    this.adapters = new Adapters({ registry: this.#registry, paths: this.#paths, unfinished });
    this.#tried = new TriedCapabilities(tried);
  }

  /** Lists all models, the built-in one first. A model whose file is missing or broken has the state `failed`. */
  async list(): Promise<ModelRecord[]> {
    const registry = await this.#registry.read();
    const looked = await Promise.all([
      this.#lookAtBuiltin(registry),
      ...registry.models.map((entry) => this.#lookAt(entry, registry)),
    ]);
    return looked.map(({ record }) => record);
  }

  /**
   * @param name an id, or `file:` and an absolute path; absent: the default model
   * @throws SvcError MODEL_NOT_FOUND, MODEL_INVALID
   */
  async find(name?: string): Promise<ModelRecord> {
    const { record, failure } = await this.look(name);
    if (failure !== undefined) throw failure;
    return record;
  }

  /** As `find`, but a registered model whose file cannot be loaded is returned, with the error. */
  async look(name?: string): Promise<Looked> {
    const registry = await this.#registry.read();
    return await this.#look(name ?? defaultIdOf(registry), registry);
  }

  /**
   * Adds a model: checks its file and computes its digest. For a model in parts `file` is any of them. A file that was
   * added before keeps its id, unless a new name is given: then it has both.
   * @throws SvcError MODEL_NOT_FOUND, MODEL_INVALID, CANNOT_WRITE; INVALID_REQUEST for a bad name or one that is taken
   */
  async add(file: string, { name, copy = false, projector, onProgress }: AddOptions = {}): Promise<ModelRecord> {
    const path = resolve(file);
    if (name !== undefined) await this.checkName(name);
    const files = await filesOfModel(path);
    const summary = await inspectParts(files);
    if (projector !== undefined) await checkProjector(projector);
    const entry = copy
      ? await this.#addCopy(files, name, onProgress)
      : await this.#addReference(files, summary, name, onProgress);
    const whole = projector === undefined ? entry : await this.#addProjector(entry, projector);
    return (await this.#lookAt(whole, await this.#registry.read())).record;
  }

  /**
   * Removes the model. Its file is deleted only if it is in the store.
   * @throws SvcError MODEL_NOT_FOUND, CANNOT_WRITE; INVALID_REQUEST for the built-in model
   */
  async remove(name: string): Promise<void> {
    await this.#registry.update(async (registry) => {
      const removed = removable(name, registry);
      registry.models = registry.models.filter((entry) => entry !== removed);
      if (registry.default === removed.id) registry.default = null;
      // Delete the files before writing the registry: on a full disk that makes room for it.
      await deleteFiles(this.#paths, removed, registry);
    });
  }

  /** Returns for each file of a model whether the store has it. @throws SvcError CONFIG_INVALID; as DigestsOnce.of */
  async held(files: readonly Omit<FetchedFile, 'path'>[], digests = new DigestsOnce()): Promise<boolean[]> {
    const registry = await this.#registry.read();
    const places = placesOf(
      this.#paths,
      files.map(({ digest }) => digest),
    );
    const look = async ({ digest, sizeBytes }: Omit<FetchedFile, 'path'>, index: number): Promise<boolean> =>
      await holds(places[index] ?? '', { digest, size_bytes: sizeBytes }, registry, digests);
    return await Promise.all(files.map(look));
  }

  /** Returns the id that `adopt` would give the model now. @throws SvcError INVALID_REQUEST if another model has it */
  async idFor(model: NewModel): Promise<string> {
    return placeFor(model, await this.#registry.read(), this.#reserved()).id;
  }

  /**
   * Moves a pulled model into the store under its id; replaces its older version, and the files of that.
   * @throws SvcError MODEL_INVALID, CANNOT_WRITE; INVALID_REQUEST if another model has the id
   */
  async adopt(model: FetchedModel): Promise<ModelRecord> {
    const entry = await adopt(model, { file: this.#registry, paths: this.#paths, reserved: this.#reserved() });
    return (await this.#lookAt(entry, await this.#registry.read())).record;
  }

  /**
   * Verifies the digests of the models (verify.ts).
   * @param name absent: all models; then leftovers in the store are deleted, too
   * @throws SvcError MODEL_NOT_FOUND; INVALID_REQUEST for a file that was not added; `signal.reason`
   */
  async verify(name: string | undefined, emit: OnVerified, signal?: AbortSignal): Promise<VerifyResult> {
    const registry = await this.#registry.read();
    const id = name === undefined ? undefined : this.#idOfAdded(name, registry);
    const chosen = id === undefined ? registry.models : registry.models.filter((entry) => entry.id === id);
    const verification = new Verification({ registry: this.#registry, paths: this.#paths, emit, signal });
    await verification.verify(chosen);
    if (id === undefined || id === BUILTIN_ID) {
      const { record, failure } = await this.#lookAtBuiltin(registry);
      verification.told(record, failure);
    }
    return await verification.end(id === undefined);
  }

  /** Checks that a new model may have this name. @throws SvcError INVALID_REQUEST */
  async checkName(name: string): Promise<void> {
    checkModelId(name);
    checkFree(name, await this.#registry.read(), this.#reserved());
  }

  /** The list of the added models, for `in-place.ts`. */
  get registry(): RegistryFile {
    return this.#registry;
  }

  /** A path in the store for an unfinished file. */
  async unfinished(): Promise<string> {
    try {
      await makeDirectory(this.#paths.blobs);
    } catch (error) {
      throw cannotWrite(error, this.#dir);
    }
    return this.#paths.unfinished();
  }

  /**
   * Keeps what loading the file at `path` has found, for its model's record. Does nothing for a file that was not
   * added, or has changed since. @throws SvcError as `list`, and errors of the file system
   */
  async noteLoad(path: string, found: readonly TriedCapability[]): Promise<void> {
    const record = (await this.list()).find((model) => model.path === path);
    const key = record === undefined ? undefined : keyOfFindings(record);
    if (key !== undefined) await this.#tried.note(key, found);
  }

  /** The name that was set as the default; null: none. It may be gone. */
  async defaultName(): Promise<string | null> {
    return (await this.#registry.read()).default;
  }

  /** Sets a name as the default that `named-models.ts` resolves. */
  async setDefaultName(name: string): Promise<void> {
    await this.#registry.update((registry) => {
      registry.default = name;
    });
  }

  /** @throws SvcError as `find`; INVALID_REQUEST for a path */
  async setDefault(name: string): Promise<void> {
    if (name.startsWith(FILE_PREFIX)) {
      throw new SvcError('INVALID_REQUEST', 'only a model that was added can be the default', {
        hint: `svc model add ${name.slice(FILE_PREFIX.length)}`,
        param: 'model',
      });
    }
    const { id, builtin } = await this.find(name);
    await this.#registry.update((registry) => {
      registry.default = builtin ? null : idOf(id, registry);
    });
  }

  async #addReference(
    files: readonly string[],
    before: GgufSummary,
    name: string | undefined,
    onProgress: OnProgress | undefined,
  ): Promise<RegistryEntry> {
    const [path = ''] = files;
    const read = await this.#readAll(files, onProgress, (file, tell) => digestOf(file, tell));
    const summary = await inspectParts(files);
    if (versionOf(summary) !== versionOf(before)) {
      throw new SvcError('MODEL_INVALID', `${path} changed while it was read`, { hint: 'add it once it is complete' });
    }
    return await this.#registry.update((registry) => {
      registry.models = registry.models.map((each) => (each.path === path ? readAgain(each, read, summary) : each));
      const known = registry.models.find((each) => each.path === path);
      if (name === undefined && known !== undefined) return known;
      const entry = entryOf(newId(name, wholeName(path), registry, this.#reserved()), path, read, summary);
      registry.models.push(entry);
      return entry;
    });
  }

  async #addCopy(
    files: readonly string[],
    name: string | undefined,
    onProgress: OnProgress | undefined,
  ): Promise<RegistryEntry> {
    const { blobs } = this.#paths;
    const unfinished = files.map(() => this.#paths.unfinished());
    try {
      await makeDirectory(blobs);
      const copied = await this.#readAll(files, onProgress, (file, tell, index) =>
        copyWithDigest(file, unfinished[index] ?? '', tell),
      );
      // Describe the copy: the original may have changed since it was read.
      const summary = await inspectParts(unfinished);
      const digests = copied.map(({ digest }) => digest);
      const places = placesOf(this.#paths, digests);
      return await this.#registry.update(async (registry) => {
        const digest = digestOfWeights(digests);
        const known = registry.models.filter((each) => each.path === null && each.digest === digest);
        const entry = name === undefined ? known[0] : undefined;
        const id = entry?.id ?? newId(name, wholeName(files[0] ?? ''), registry, this.#reserved());
        const added = entry ?? entryOf(id, null, copied, summary);
        if (entry === undefined) registry.models.push(added);
        // Also if the store has it already: that copy may be damaged.
        for (const [index, place] of places.entries()) await bring(unfinished[index] ?? '', place);
        registry.damaged = registry.damaged.filter((each) => !digests.includes(each));
        for (const each of known) each.modified_at_ms = summary.modified_at_ms;
        return added;
      });
    } catch (error) {
      throw cannotWrite(error, this.#dir);
    } finally {
      for (const file of unfinished) await rm(file, { force: true }).catch(() => undefined);
    }
  }

  async #addProjector({ id }: RegistryEntry, file: string): Promise<RegistryEntry> {
    const unfinished = await this.unfinished();
    try {
      const digest = await copyWithDigest(file, unfinished);
      await checkProjector(unfinished);
      const { size: size_bytes } = await stat(unfinished);
      return await this.#registry.update(async (registry) => {
        await bring(unfinished, this.#paths.blob(digest));
        const entry = registry.models.find((each) => each.id === id);
        if (entry === undefined) throw new SvcError('MODEL_NOT_FOUND', `${id} was removed meanwhile`);
        entry.projector = { digest, size_bytes };
        registry.damaged = registry.damaged.filter((each) => each !== digest);
        return entry;
      });
    } catch (error) {
      throw cannotWrite(error, this.#dir);
    } finally {
      await rm(unfinished, { force: true }).catch(() => undefined);
    }
  }

  /** Returns the digests that `read` computes, one file after the other; reports the progress over all files. */
  async #readAll(
    files: readonly string[],
    onProgress: OnProgress | undefined,
    read: (file: string, tell: OnProgress, index: number) => Promise<string>,
  ): Promise<StoredFile[]> {
    const sizes = await Promise.all(files.map(async (file) => (await stat(file)).size));
    const total = sizes.reduce((sum, size) => sum + size, 0);
    const all: StoredFile[] = [];
    let before = 0;
    for (const [index, file] of files.entries()) {
      const digest = await read(file, (done) => onProgress?.(before + done, total), index);
      all.push({ digest, size_bytes: sizes[index] ?? 0 });
      before += sizes[index] ?? 0;
    }
    return all;
  }

  #idOfAdded(name: string, registry: Registry): string {
    if (!name.startsWith(FILE_PREFIX)) return idOf(name, registry);
    const path = name.slice(FILE_PREFIX.length);
    const added = registry.models.find((entry) => entry.path === path);
    if (added !== undefined) return added.id;
    throw new SvcError('INVALID_REQUEST', `${path} was not added, so there is no digest to verify it against`, {
      hint: `svc model add ${path}`,
      param: 'model',
    });
  }

  async #look(name: string, registry: Registry): Promise<Looked> {
    if (name.startsWith(FILE_PREFIX)) return await this.#lookAtFile(name.slice(FILE_PREFIX.length), registry);
    const id = idOf(name, registry);
    const entry = registry.models.find((each) => each.id === id);
    return entry === undefined ? await this.#lookAtBuiltin(registry) : await this.#lookAt(entry, registry);
  }

  async #lookAt(entry: RegistryEntry, registry: Registry): Promise<Looked> {
    const files = weightsOf(entry, this.#paths).map(({ path }) => path);
    const [path = ''] = files;
    const what = `the model ${entry.id}`;
    const projector = await this.#projectorOf(entry);
    const record = recordOf(
      entry,
      path,
      defaultIdOf(registry) === entry.id,
      given({
        projector,
        adapters: await this.adapters.of(entry, entry.digest, registry),
      }),
    );
    try {
      const found = await Promise.all(files.map((file) => stat(file)));
      const size = found.reduce((sum, each) => sum + each.size, 0);
      if (isDamaged(entry, registry)) throw new SvcError('MODEL_INVALID', 'its content has changed (SHA-256 mismatch)');
      const fault = entry.projector === undefined ? undefined : await faultOf(entry.projector, registry, this.#paths);
      if (fault !== undefined) {
        const file = projector?.path ?? '';
        return failed(record, what, projectorError(fault, file), mendingOf(entry, [file], this.#paths));
      }
      if (size === entry.size_bytes && found[0]?.mtimeMs === entry.modified_at_ms)
        return { record: await this.#withFindings(record) };
      const adapters = await this.adapters.of(entry, null, registry);
      return {
        record: { ...record, ...factsOf(await this.#inspected.of(...files)), ...given({ adapters }), digest: null },
      };
    } catch (error) {
      return failed(record, what, error, mendingOf(entry, files, this.#paths));
    }
  }

  /** The one that was installed with the model, or one beside its file. */
  async #projectorOf({ projector, path }: RegistryEntry): Promise<ModelRecord['projector']> {
    if (projector !== undefined) return { path: projector.path ?? this.#paths.blob(projector.digest), ...projector };
    return path === null ? undefined : await projectorBeside(path);
  }

  async #lookAtFile(path: string, registry: Registry): Promise<Looked> {
    if (!isAbsolute(path)) {
      throw new SvcError('INVALID_REQUEST', `${FILE_PREFIX}${path} is not an absolute path`, { param: 'model' });
    }
    const known = registry.models.find((entry) => entry.path === path);
    if (known !== undefined) return await this.#lookAt(known, registry);
    const files = await filesOfModel(path);
    const unknown = unknownFile(`${FILE_PREFIX}${path}`, 'file', files[0] ?? path);
    const projector = await projectorBeside(files[0] ?? path);
    return { record: { ...unknown, ...factsOf(await this.#inspected.of(...files)), ...given({ projector }) } };
  }

  async #lookAtBuiltin(registry: Registry): Promise<Looked> {
    const path = this.#builtinPath;
    const isDefault = defaultIdOf(registry) === BUILTIN_ID;
    const record: ModelRecord = { ...unknownFile(BUILTIN_ID, 'builtin', path), default: isDefault, builtin: true };
    try {
      const summary = await this.#inspected.of(path);
      const digest = await this.#builtinDigest.of(path);
      return { record: await this.#withFindings({ ...record, ...factsOf(summary), digest }) };
    } catch (error) {
      return { record: { ...record, state: 'failed' }, failure: builtinFailure(error, path) };
    }
  }

  async #withFindings(record: ModelRecord): Promise<ModelRecord> {
    const key = keyOfFindings(record);
    const found = key === undefined ? undefined : await this.#tried.of(key);
    return found === undefined ? record : { ...record, ...triedFields(record.capabilities, found) };
  }
}

function projectorError(fault: 'missing' | 'damaged', path: string): SvcError {
  return fault === 'missing'
    ? new SvcError('MODEL_NOT_FOUND', `there is no file ${path}`)
    : new SvcError('MODEL_INVALID', `${path} has changed since it was added`);
}

/** Adds what is wrong with a model's files to its record. */
function failed(record: ModelRecord, what: string, error: unknown, hint: string): Looked {
  const { code, message } = modelFileError(error, record.path);
  const failure = new SvcError(code, `${what} cannot be loaded: ${message}`, { hint, cause: error });
  return { record: { ...record, state: 'failed' }, failure };
}
