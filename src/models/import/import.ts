/**
 * Registers what other programs have on this disk, in place. One file that cannot be used never ends the import.
 *
 * The folders follow from the surroundings alone. A caller chooses among the models that were found there, by their
 * sources; it never names a file.
 */
import { realpath } from 'node:fs/promises';
import { progressReport } from '../../files/rate.ts';
import { SvcError } from '../../protocol/errors.ts';
import type { ImportedModel, ImportEvent, ImportRecord, Program, Refused } from '../../protocol/model/import.ts';
import {
  furtherNames,
  isModelName,
  nameIn,
  type ModelNames,
  type ModelSettings,
} from '../../protocol/model/settings.ts';
import { prepare, register, type InPlaceOptions, type Prepared, type Registered } from '../store/in-place.ts';
import type { RegistryFile } from '../store/registry.ts';
import { foldersOf, type Surroundings } from './folders.ts';
import { statedDigest, type FoundModel, type Scan } from './found.ts';
import { scanHubCache } from './hub-cache.ts';
import { realInside } from './inside.ts';
import { scanLmStudio } from './lmstudio.ts';
import { scanOllama } from './ollama.ts';
import { reasonOf } from './repository.ts';

const SCANS: Readonly<Record<Program, (root: string) => Promise<Scan>>> = {
  ollama: scanOllama,
  lmstudio: scanLmStudio,
  hf: scanHubCache,
};

export interface ImportOptions {
  readonly programs: readonly Program[];
  readonly surroundings: Surroundings;
  /** Returns why a folder, without links, may not be read; null: it may be. Absent: all may be. */
  refusal?(root: string): Promise<string | null>;
  /** True: registers nothing. */
  readonly isDry: boolean;
  /** Sources of the models to register. Absent: all that are found. */
  readonly sources?: readonly string[];
  readonly registry: RegistryFile;
  /** Names of the config. */
  readonly names: ModelNames;
  /** Gives a name settings in the config. */
  setName(name: string, settings: ModelSettings): Promise<void>;
  emit(event: Exclude<ImportEvent, { readonly type: 'finished' }>): void;
  readonly signal?: AbortSignal;
}

interface Found extends FoundModel {
  readonly program: Program;
}
type Ready = Prepared & { readonly model: Found };

/**
 * Aborting ends the reading; models that were registered before stay.
 * @throws SvcError MODEL_NOT_FOUND if a source is not found; CANNOT_WRITE, BUSY; `signal.reason`
 */
export async function importModels(options: ImportOptions): Promise<ImportRecord> {
  const { programs, surroundings, isDry, sources, emit, refusal, signal } = options;
  const folders: { program: Program; path: string; found: boolean }[] = [];
  const found: Found[] = [];
  const refused: (Refused & { program: Program })[] = [];
  for (const program of programs) {
    for (const path of foldersOf(program, surroundings)) {
      signal?.throwIfAborted();
      emit({ type: 'looking', program, path });
      const root = await realpath(path).catch(() => null);
      folders.push({ program, path, found: root !== null });
      if (root === null) continue;
      const reason = (await refusal?.(root)) ?? null;
      if (reason !== null) {
        refused.push({ path, reason, program });
        continue;
      }
      const scan = await SCANS[program](root);
      found.push(...scan.models.map((model) => ({ ...model, program })));
      refused.push(...scan.refused.map((each) => ({ ...each, program })));
    }
  }
  const work = new Import(options, (path, reason, program) => refused.push({ path, reason, program }));
  const models = await work.run(sources === undefined ? found : chosen(found, sources), isDry);
  return { dry_run: isDry, folders, models, refused };
}

function chosen(found: readonly Found[], sources: readonly string[]): Found[] {
  const known = new Set(found.map(({ source }) => source));
  const missing = sources.find((source) => !known.has(source));
  if (missing === undefined) return found.filter(({ source }) => sources.includes(source));
  throw new SvcError(
    'MODEL_NOT_FOUND',
    `no program on this machine has the model ${JSON.stringify(missing.slice(0, 200))}`,
    {
      hint: 'list the models with `svc model import --dry-run`, or with an import without `models`, and name their `source`',
      param: 'models',
    },
  );
}

class Import {
  readonly #options: ImportOptions;
  readonly #refuse: (path: string, reason: string, program: Program) => void;
  readonly #names: Record<string, ModelSettings>;
  readonly #planned = new Set<string>();

  constructor(options: ImportOptions, refuse: (path: string, reason: string, program: Program) => void) {
    this.#options = options;
    this.#refuse = refuse;
    this.#names = { ...options.names };
  }

  async run(found: readonly Found[], isDry: boolean): Promise<ImportedModel[]> {
    const { emit, signal } = this.#options;
    const ready: Ready[] = [];
    for (const model of found) {
      signal?.throwIfAborted();
      const prepared = await this.#guarded(model, () => prepare(model, this.#optionsFor(model)));
      if (prepared !== undefined) ready.push({ ...prepared, model });
    }
    let id = '';
    const total = ready.flatMap(({ presentAs, sizes }) => (presentAs === null ? [...sizes.values()] : []));
    const report = progressReport(
      total.reduce((sum, size) => sum + size, 0),
      (progress) => emit({ type: 'progress', model: id, ...progress }),
    );
    const models: ImportedModel[] = [];
    let before = 0;
    for (const each of ready) {
      signal?.throwIfAborted();
      id = each.id;
      const onProgress = (done: number): void => {
        signal?.throwIfAborted();
        report(before + done);
      };
      const made = await this.#guarded(each.model, () => this.#take(each, isDry, onProgress));
      if (made !== undefined) models.push(made);
      if (each.presentAs !== null) continue;
      before += sum(each);
      if (!isDry) report(before, true);
    }
    return models;
  }

  async #take(ready: Ready, isDry: boolean, onProgress: (done: number) => void): Promise<ImportedModel> {
    const { model, id: planned, presentAs } = ready;
    if (presentAs !== null) return await this.#present(ready, presentAs, isDry);
    if (isDry) return this.#recordOf(ready, { id: planned, state: 'planned' });
    const notes: string[] = [];
    // Without its settings the model would give other answers, and a later import would find it present.
    const complete = async (added: Registered): Promise<void> => {
      notes.push(...(await this.#setFor(model, added)));
    };
    const { id, isNew } = await register(ready, this.#optionsFor(model), onProgress, complete);
    if (!isNew) return await this.#present(ready, id, false);
    return this.#recordOf(ready, { id, state: 'imported' }, notes);
  }

  /** Writes the settings of a new model into the config, unless it has some for this name. Returns notes for the user. */
  async #setFor(model: Found, { id, adapters }: Registered): Promise<string[]> {
    const lora = adapters.map((adapter) => ({ id: adapter, scale: 1 }));
    const settings = { ...model.settings, ...(lora.length === 0 ? {} : { lora }) };
    if (Object.keys(settings).length === 0) return [];
    if (nameIn(this.#names, id) !== undefined) return [`models.${id} of the config is kept as it is`];
    await this.#set(id, settings);
    return [];
  }

  /** The weights are installed: a name of Ollama becomes a further name of them. */
  async #present(ready: Ready, installed: string, isDry: boolean): Promise<ImportedModel> {
    const { id, program, settings, adapters } = ready.model;
    const notes =
      adapters.length === 0
        ? []
        : [`its adapters are not added: svc model add --adapter-of ${installed} ${adapters[0] ?? ''}`];
    const isKnown = [installed, ...Object.keys(this.#names)].some((name) => name.toLowerCase() === id.toLowerCase());
    const isFurther = program === 'ollama' && !isKnown && isModelName(id);
    if (!isFurther) return this.#recordOf(ready, { id, state: 'present', same_as: installed });
    if (!isDry) await this.#set(id, { from: installed, ...settings });
    return this.#recordOf(ready, { id, state: isDry ? 'planned' : 'named', same_as: installed }, notes);
  }

  async #set(name: string, settings: ModelSettings): Promise<void> {
    await this.#options.setName(name, settings);
    this.#names[name] = settings;
  }

  #recordOf(
    ready: Ready,
    { id, state, same_as = null }: Pick<ImportedModel, 'id' | 'state'> & { readonly same_as?: string | null },
    more: readonly string[] = [],
  ): ImportedModel {
    const { program, id: wanted, source, path, projector, adapters, settings, notes } = ready.model;
    const taken = id === wanted || same_as !== null ? [] : [`the name ${wanted} is taken`];
    return {
      id,
      state,
      same_as: same_as === id ? null : same_as,
      program,
      source,
      path,
      size_bytes: sum(ready),
      projector,
      adapters,
      settings,
      notes: [...taken, ...notes, ...more],
    };
  }

  #optionsFor({ root }: FoundModel): InPlaceOptions {
    return {
      registry: this.#options.registry,
      reserved: furtherNames(this.#names),
      check: async (path) => statedDigest(await realInside(path, root)),
      planned: this.#planned,
    };
  }

  /** undefined: the model's files are refused. */
  async #guarded<Result>(model: Found, act: () => Promise<Result>): Promise<Result | undefined> {
    try {
      return await act();
    } catch (error) {
      this.#refuse(model.path, `(${model.id}) ${reasonOf(error, model.path)}`, model.program);
      return undefined;
    }
  }
}

function sum({ sizes }: Prepared): number {
  return [...sizes.values()].reduce((total, size) => total + size, 0);
}
