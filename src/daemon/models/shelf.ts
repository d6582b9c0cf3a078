/** Describes, names and removes the models of this machine, for the clients of Ollama's API and the console. */
import { changeConfig } from '../../config/settings.ts';
import { loadConfig } from '../../config/config.ts';
import { modelNamesIn } from '../../config/model-settings.ts';
import type { Paths } from '../../home/paths.ts';
import { FileFacts } from '../../models/gguf/file-facts.ts';
import { toModelfile } from '../../models/modelfile/modelfile.ts';
import { withParameters } from '../../models/modelfile/parameters.ts';
import { copyModel } from '../../models/store/copy-model.ts';
import { prefixFolder } from '../../models/store/prefixes.ts';
import type { NamedModels } from '../../models/store/named-models.ts';
import { removeModel } from '../../models/store/remove-model.ts';
import type { ModelStore } from '../../models/store/store.ts';
import type { CatalogueModel } from '../../protocol/console.ts';
import { SvcError } from '../../protocol/errors.ts';
import { given } from '../../protocol/given.ts';
import { isModelName, nameIn, type ModelSettings } from '../../protocol/model/settings.ts';
import type { ModelDefaults } from '../../protocol/llama-server/props.ts';
import type { CreateRequest } from '../../protocol/ollama/models.ts';
import type { ModelDescription } from '../../protocol/ollama/show.ts';
import type { DeviceRecord, ModelRecord } from '../../protocol/records.ts';
import { memoryForModel } from '../../models/pull/fits.ts';
import { catalogueHere } from './catalogue-here.ts';
import type { LocalEngines } from './local-engines.ts';
import { readHeaderFacts, textOf, type HeaderFacts } from './header-facts.ts';

export interface ShelfOptions {
  readonly paths: Pick<Paths, 'configFile' | 'cacheDir'>;
  /** Folder of the store. */
  readonly modelsDir: string;
  readonly installed: Pick<ModelStore, 'registry' | 'remove'>;
  readonly store: Pick<NamedModels, 'setDefault'>;
  readonly local: Pick<LocalEngines, 'loadedModels'>;
  models(): Promise<readonly ModelRecord[]>;
  unload(model: string): Promise<void>;
  /** Devices of this machine. */
  devices(): readonly DeviceRecord[];
  /** Reads the config again. Throws CONFIG_INVALID. */
  reload(): void;
}

/** Real headers have a template of some ten thousand characters, and a licence. */
const MOST_KEPT_CHARACTERS = 512 * 1024;

export class Shelf {
  readonly #options: ShelfOptions;
  readonly #headers = new FileFacts<HeaderFacts>({
    read: async ([path = '']) => await readHeaderFacts(path),
    keeps: (facts) => textOf(facts) <= MOST_KEPT_CHARACTERS,
  });

  constructor(options: ShelfOptions) {
    this.#options = options;
  }

  /** Reads the headers of the model's files. Throws MODEL_NOT_FOUND, MODEL_INVALID. */
  async describe({ path, id, from = id, projector, settings = {} }: ModelRecord): Promise<ModelDescription> {
    const { metadata, template, fillsGaps } = await this.#headers.of(path);
    const { system: _, ...parameters } = settings;
    return {
      metadata,
      template,
      projector: projector === undefined ? null : (await this.#headers.of(projector.path)).metadata,
      fillsGaps,
      modelfile: toModelfile(from, settings),
      parameters: toModelfile(from, parameters)
        .split('\n')
        .flatMap((line) => /^PARAMETER (.*)$/.exec(line)?.[1] ?? []),
    };
  }

  /** What the file of a model and the config say about requests that leave it open. Throws as `describe`. */
  async defaultsOf({ path, settings }: ModelRecord): Promise<ModelDefaults> {
    const { template, sampling } = await this.#headers.of(path);
    return { chat_template: template, sampling: { ...sampling, ...settings?.sampling } };
  }

  /** Gives a model a further name, which stays when the first is removed. Throws INVALID_REQUEST, CANNOT_WRITE. */
  async copy({ id, from, builtin, settings }: ModelRecord, name: string): Promise<void> {
    await this.#checkFree(name, 'destination');
    if (from !== undefined || builtin) {
      await this.#setName(name, { ...settings, from: from ?? id });
      return;
    }
    await copyModel(this.#options.modelsDir, id, name);
    try {
      await this.#setName(name, settings);
    } catch (error) {
      // Without the settings, the copy would give other answers than the model.
      await this.#options.installed.remove(name);
      throw error;
    }
  }

  /** As `svc model rm --yes`. Throws INVALID_REQUEST for the built-in model, BUSY while it is in use, CANNOT_WRITE. */
  async remove(model: ModelRecord): Promise<void> {
    const { paths, installed, local, models, unload } = this.#options;
    if (model.from !== undefined) {
      await this.#setName(model.id, undefined);
      return;
    }
    await removeModel(model, {
      store: installed,
      models: await models(),
      loaded: local.loadedModels().map(({ id }) => id),
      prefixes: prefixFolder(paths.cacheDir),
      unload,
    });
  }

  /** As `svc model default`. Throws INVALID_REQUEST, CANNOT_WRITE. */
  async setDefault({ id }: ModelRecord): Promise<void> {
    await this.#options.store.setDefault(id);
  }

  /** The catalogue of models to pull, against the memory and the disk of this machine. */
  async catalogue(): Promise<readonly CatalogueModel[]> {
    const { models, modelsDir, devices } = this.#options;
    return await catalogueHere(await models(), modelsDir, memoryForModel(devices()));
  }

  /**
   * As `svc model create`: makes a name with settings from a model. Resolves with the settings that were skipped, and
   * why. Throws INVALID_REQUEST, CANNOT_WRITE.
   */
  async create(
    name: string,
    { id, from = id, settings: own }: ModelRecord,
    { parameters, system }: Pick<CreateRequest, 'parameters'> & { readonly system?: string },
  ): Promise<readonly string[]> {
    await this.#checkFree(name, 'model');
    // A name that is made from itself keeps its settings.
    const start: ModelSettings = { ...(id === name ? { ...own, from } : { from: id }), ...given({ system }) };
    const { settings, skipped } = withParameters(start, parameters);
    await this.#setName(name, settings);
    return skipped;
  }

  /** Names of the config may be replaced; installed models may not. Throws INVALID_REQUEST. */
  async #checkFree(name: string, param: string): Promise<void> {
    if (!isModelName(name)) {
      throw new SvcError('INVALID_REQUEST', `${param} cannot be the name of a model`, {
        hint: 'up to 128 letters, digits and . _ - : / @, a letter or digit first and last; `default` is taken',
        param,
      });
    }
    const holder = (await this.#options.models()).find(({ id, aliases }) =>
      [id, ...aliases].some((each) => each.toLowerCase() === name.toLowerCase()),
    );
    if (holder === undefined || holder.from !== undefined) return;
    throw new SvcError('INVALID_REQUEST', `a model with this name exists: ${holder.id}`, {
      hint: 'choose another name, or remove that one',
      param,
    });
  }

  /** Replaces the settings of a name; undefined: removes them. */
  async #setName(name: string, settings: ModelSettings | undefined): Promise<void> {
    const { paths, reload } = this.#options;
    const known = nameIn(modelNamesIn(loadConfig(paths).models), name);
    // The config may be read-only.
    if (known === undefined && settings === undefined) return;
    const isChanged = await changeConfig(paths, [
      ...(known === undefined ? [] : [{ path: ['models', known], value: undefined }]),
      ...(settings === undefined ? [] : [{ path: ['models', name], value: settings }]),
    ]);
    if (isChanged) reload();
  }
}
