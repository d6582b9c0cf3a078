/**
 * The models of this machine under all their names: the installed ones, and the names that the config gives them
 * (`models.NAME`), with their settings.
 *
 *   NAME ──from──► NAME ──from──► installed model (id, alias, …)      settings of the left over those of the right
 *
 * `models.NAME` without `from` has the settings of the installed model NAME, under all its names. A name that is also
 * the id of an installed model hides that model.
 */
import { SvcError } from '../../protocol/errors.ts';
import { given } from '../../protocol/given.ts';
import {
  chainOf,
  merged,
  nameIn,
  type ModelNames,
  type ModelSettings,
  type SharedSetting,
} from '../../protocol/model/settings.ts';
import type { ModelRecord, TriedCapability } from '../../protocol/records.ts';
import { unknownFile } from './record.ts';
import type { Looked, ModelStore } from './store.ts';

export interface NamedModelsOptions {
  readonly store: Pick<
    ModelStore,
    'list' | 'find' | 'look' | 'noteLoad' | 'defaultName' | 'setDefaultName' | 'setDefault'
  >;
  readonly names: ModelNames;
}

export class NamedModels {
  readonly #store: NamedModelsOptions['store'];
  #names: ModelNames;

  constructor({ store, names }: NamedModelsOptions) {
    this.#store = store;
    this.#names = names;
  }

  /** Names of the config. */
  get names(): ModelNames {
    return this.#names;
  }

  /** Replaces the names, from the next call on. */
  setNames(names: ModelNames): void {
    this.#names = names;
  }

  /** Lists the installed models and then the names, whose state is `failed` if their model is not installed. */
  async list(): Promise<ModelRecord[]> {
    const chosen = await this.#chosenName();
    const installed = await this.#store.list();
    const own = this.#ownNames();
    const names = await Promise.all(own.map(async (name) => await this.#recordOf(name, chosen)));
    return [
      ...installed
        .filter(({ id }) => this.#ownName(id) === undefined)
        .map((record) => this.#withSettings(record, chosen)),
      ...names.map(({ record }) => record),
    ];
  }

  /** As ModelStore.find, also for names. @throws SvcError MODEL_NOT_FOUND, MODEL_INVALID */
  async find(name?: string): Promise<ModelRecord> {
    const { record, failure } = await this.look(name);
    if (failure !== undefined) throw failure;
    return record;
  }

  /** As ModelStore.look, also for names. */
  async look(name?: string): Promise<Looked> {
    const chosen = await this.#chosenName();
    const own = this.#ownName(name ?? chosen ?? undefined);
    if (own !== undefined) return await this.#recordOf(own, chosen);
    const { record, ...failed } = await this.#store.look(name);
    return { record: this.#withSettings(record, chosen), ...failed };
  }

  /**
   * Name of the setting in the config that decides for the model `name`: that of the name itself, of one that it is made
   * from, or of the section `engine`. Never rejects.
   */
  async settingOf(name: string, key: SharedSetting): Promise<string> {
    const { names, base } = chainOf(this.#names, name);
    const installed = await this.#store.find(base).catch(() => null);
    const last = installed === null ? undefined : this.#settingsNameOf(installed);
    const deciding = [...names, last].find((each) => each !== undefined && this.#names[each]?.[key] !== undefined);
    return deciding === undefined ? `engine.${key}` : `models.${deciding}.${key}`;
  }

  /** @throws SvcError as `find`; INVALID_REQUEST for a path */
  async setDefault(name: string): Promise<void> {
    const own = this.#ownName(name);
    if (own === undefined) {
      await this.#store.setDefault(name);
      return;
    }
    const { id } = await this.find(own);
    await this.#store.setDefaultName(id);
  }

  async noteLoad(path: string, found: readonly TriedCapability[]): Promise<void> {
    await this.#store.noteLoad(path, found);
  }

  /** The name that was set as the default model, if it is a name of the config; null: it is an installed model. */
  async #chosenName(): Promise<string | null> {
    if (this.#ownNames().length === 0) return null;
    return this.#ownName((await this.#store.defaultName()) ?? undefined) ?? null;
  }

  /** All names that are not settings of an installed model of that name. */
  #ownNames(): string[] {
    return Object.keys(this.#names).filter((name) => this.#ownName(name) !== undefined);
  }

  /** Returns the name as the config spells it. undefined: it is an installed model's, or no name. */
  #ownName(name: string | undefined): string | undefined {
    const spelled = name === undefined ? undefined : nameIn(this.#names, name);
    const from = spelled === undefined ? undefined : this.#names[spelled]?.from;
    return from === undefined || from.toLowerCase() === spelled?.toLowerCase() ? undefined : spelled;
  }

  async #recordOf(name: string, chosen: string | null): Promise<Looked> {
    const { names, base } = chainOf(this.#names, name);
    const fields = { id: name, aliases: [], default: name === chosen, builtin: false };
    try {
      const model = this.#withSettings(await this.#store.find(base), chosen);
      const settings = [...names]
        .reverse()
        .reduce<ModelSettings>((below, each) => merged(below, this.#names[each] ?? {}), model.settings ?? {});
      return { record: { ...model, ...fields, from: model.id, settings } };
    } catch (error) {
      const { code, message, hint } = SvcError.from(error);
      const what = code === 'MODEL_NOT_FOUND' ? `the model ${JSON.stringify(base)} is not installed` : message;
      const mend = code === 'MODEL_NOT_FOUND' ? `install it, or correct models.${name}.from in the config` : hint;
      const failure = new SvcError(code, `${name} cannot be used: ${what}`, {
        ...given({ hint: mend }),
        param: 'model',
        cause: error,
      });
      return { record: { ...unknownFile(name, 'config', ''), ...fields, from: base, state: 'failed' }, failure };
    }
  }

  /** Name under which the config has settings of an installed model. undefined: it has none. */
  #settingsNameOf({ id, aliases }: ModelRecord): string | undefined {
    return [id, ...aliases]
      .map((name) => nameIn(this.#names, name))
      .find((name) => name !== undefined && this.#ownName(name) === undefined);
  }

  #withSettings(record: ModelRecord, chosen: string | null): ModelRecord {
    const marked = chosen === null ? record : { ...record, default: false };
    const spelled = this.#settingsNameOf(record);
    const settings = spelled === undefined ? undefined : this.#names[spelled];
    return settings === undefined ? marked : { ...marked, settings: merged({}, settings) };
  }
}
