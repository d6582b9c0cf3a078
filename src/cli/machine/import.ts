/** Registers what other programs have on this disk, in place. One file that cannot be used never ends the import. */
import { realpath } from 'node:fs/promises';
import { homedir } from 'node:os';
import { changeConfig } from '../../config/settings.ts';
import { resolvePaths } from '../../home/paths.ts';
import { foldersOf } from '../../models/import/folders.ts';
import { statedDigest, type FoundModel, type Program, type Refused, type Scan } from '../../models/import/found.ts';
import { scanHubCache } from '../../models/import/hub-cache.ts';
import { realInside } from '../../models/import/inside.ts';
import { scanLmStudio } from '../../models/import/lmstudio.ts';
import { scanOllama } from '../../models/import/ollama.ts';
import { reasonOf } from '../../models/import/repository.ts';
import { prepare, register, type InPlaceOptions, type Prepared } from '../../models/store/in-place.ts';
import { progressReport } from '../../files/rate.ts';
import { variable } from '../../process/environment.ts';
import { isModelName, type ModelSettings } from '../../protocol/model/settings.ts';
import { ByteProgress } from '../terminal/byte-progress.ts';
import { sayProgress } from '../terminal/output.ts';
import { reload } from './model-names.ts';
import { configuredNames, openStore } from './models.ts';

const SCANS: Readonly<Record<Program, (root: string) => Promise<Scan>>> = {
  ollama: scanOllama,
  lmstudio: scanLmStudio,
  hf: scanHubCache,
};

export interface ImportedModel {
  /** Its id; a name that was taken has a number appended. */
  readonly id: string;
  /** `named`: the file is installed already, and the config has a further name for it. */
  readonly state: 'imported' | 'named' | 'present' | 'planned';
  /** Id of the installed model; null: `id` itself. */
  readonly same_as: string | null;
  readonly program: Program;
  readonly source: string;
  readonly path: string;
  /** With the projector and the adapters. */
  readonly size_bytes: number;
  readonly projector: string | null;
  readonly adapters: readonly string[];
  readonly settings: ModelSettings;
  readonly notes: readonly string[];
}

export interface ImportRecord {
  readonly dry_run: boolean;
  readonly folders: readonly { readonly program: Program; readonly path: string; readonly found: boolean }[];
  readonly models: readonly ImportedModel[];
  readonly refused: readonly (Refused & { readonly program: Program })[];
}

interface Found extends FoundModel {
  readonly program: Program;
}
type Ready = Prepared & { readonly model: Found };

export async function importModels(programs: readonly Program[], isDry: boolean): Promise<ImportRecord> {
  const from = { platform: process.platform, home: homedir(), variable };
  const folders: { program: Program; path: string; found: boolean }[] = [];
  const found: Found[] = [];
  const refused: (Refused & { program: Program })[] = [];
  for (const program of programs) {
    for (const path of foldersOf(program, from)) {
      sayProgress(`looking in ${path}`);
      const root = await realpath(path).catch(() => null);
      folders.push({ program, path, found: root !== null });
      if (root === null) continue;
      const scan = await SCANS[program](root);
      found.push(...scan.models.map((model) => ({ ...model, program })));
      refused.push(...scan.refused.map((each) => ({ ...each, program })));
    }
  }
  const work = new Import((path, reason, program) => refused.push({ path, reason, program }));
  const models = await work.run(found, isDry);
  sayProgress('');
  if (models.some(({ state }) => state === 'imported' || state === 'named')) await reload();
  return { dry_run: isDry, folders, models, refused };
}

class Import {
  readonly #refuse: (path: string, reason: string, program: Program) => void;
  readonly #names = configuredNames();
  readonly #planned = new Set<string>();
  readonly #registry = openStore().registry;

  constructor(refuse: (path: string, reason: string, program: Program) => void) {
    this.#refuse = refuse;
  }

  async run(found: readonly Found[], isDry: boolean): Promise<ImportedModel[]> {
    const ready: Ready[] = [];
    for (const model of found) {
      const prepared = await this.#guarded(model, () => prepare(model, this.#optionsFor(model)));
      if (prepared !== undefined) ready.push({ ...prepared, model });
    }
    const total = ready.flatMap(({ presentAs, sizes }) => (presentAs === null ? [...sizes.values()] : []));
    const bar = new ByteProgress('reading');
    const report = progressReport(
      total.reduce((sum, size) => sum + size, 0),
      (done) => {
        bar.show(done);
      },
    );
    const models: ImportedModel[] = [];
    let before = 0;
    for (const each of ready) {
      const made = await this.#guarded(each.model, () => this.#take(each, isDry, (done) => report(before + done)));
      if (made !== undefined) models.push(made);
      if (each.presentAs === null) before += sum(each);
    }
    return models;
  }

  async #take(ready: Ready, isDry: boolean, onProgress: (done: number) => void): Promise<ImportedModel> {
    const { model, id: planned, presentAs } = ready;
    if (presentAs !== null) return await this.#present(ready, presentAs, isDry);
    if (isDry) return this.#recordOf(ready, { id: planned, state: 'planned' });
    const { id, isNew, adapters } = await register(ready, this.#optionsFor(model), onProgress);
    if (!isNew) return await this.#present(ready, id, false);
    const lora = adapters.map((adapter) => ({ id: adapter, scale: 1 }));
    const settings = { ...model.settings, ...(lora.length === 0 ? {} : { lora }) };
    const notes: string[] = [];
    if (Object.keys(settings).length > 0) {
      if (Object.keys(this.#names).some((name) => name.toLowerCase() === id.toLowerCase()))
        notes.push(`models.${id} of the config is kept as it is`);
      else await this.#set(id, settings);
    }
    return this.#recordOf(ready, { id, state: 'imported' }, notes);
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
    await changeConfig(resolvePaths(), [{ path: ['models', name], value: settings }]);
    (this.#names as Record<string, ModelSettings>)[name] = settings;
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
      registry: this.#registry,
      reserved: new Set(
        Object.entries(this.#names).flatMap(([name, { from }]) => (from === undefined ? [] : [name.toLowerCase()])),
      ),
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
