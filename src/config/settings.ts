/**
 * Single settings: their names, which follow from the schema, the value in force and its origin; and changes of
 * settings in the file.
 */
import { existsSync } from 'node:fs';
import { findNodeAtLocation, parseTree } from 'jsonc-parser';
import writeFileAtomic from 'write-file-atomic';
import { SvcError } from '../protocol/errors.ts';
import { isModelName } from '../protocol/model/settings.ts';
import { PROVIDER_NAME } from '../protocol/routing.ts';
import { suggest } from '../protocol/suggest.ts';
import { parsedJson } from '../protocol/foreign-text.ts';
import { removeFromText, setInText } from './config-edit.ts';
import {
  ConfigSchema,
  environmentSettings,
  isNameOfSecret,
  loadConfig,
  parseConfig,
  position,
  readConfigFile,
  type ConfigProblem,
} from './config.ts';
import { isSettingOfModels } from './model-settings.ts';
import { partOf, type Schema } from './schema-keys.ts';
import { withFileLock } from '../files/file-lock.ts';
import { spaceHintOf } from '../files/why.ts';
import type { Paths } from '../home/paths.ts';

export interface Setting {
  readonly name: string;
  /** null: not set; docs/configuration.md says what happens then. */
  readonly value: unknown;
  readonly origin: 'default' | 'file' | 'environment';
  /** `FILE:LINE:COLUMN`, or the variable. null for a default. */
  readonly at: string | null;
}

const LOCK_RETRIES = 50;

/** Names of all settings (`http.host`), in the order of the schema. User-chosen names are taken from `config`. */
export function settingNames(config: object = {}): string[] {
  return leavesOf(ConfigSchema as Schema, [], config);
}

/** Settings below a user-chosen name, with NAME in its place: `providers.NAME.base_url`. */
export function namedSettings(): string[] {
  return leavesOf(ConfigSchema as Schema, [], {}, 'NAME').filter((name) => name.includes('.NAME.'));
}

/**
 * Keys from the root to a setting. The name of a model may have dots, so there the name of the setting after it is
 * looked for from the end: `models.llama3.2-16k.system`.
 */
export function pathOf(name: string): string[] {
  const [section = '', first = '', ...rest] = name.split('.');
  if (section !== 'models' || rest.length === 0 || isSettingOfModels(first)) return name.split('.');
  const below = name.slice('models.'.length);
  const setting = namedSettings()
    .filter((each) => each.startsWith('models.NAME.'))
    .map((each) => each.slice('models.NAME'.length))
    .concat('.sampling')
    .filter((each) => below.endsWith(each) && below.length > each.length)
    .sort((a, b) => b.length - a.length)[0];
  if (setting === undefined) return ['models', below];
  return ['models', below.slice(0, -setting.length), ...setting.slice(1).split('.')];
}

/** All settings in force; below user-chosen names only those with a value. Throws CONFIG_INVALID. */
export function listSettings(paths: Pick<Paths, 'configFile'>): Setting[] {
  const config = loadConfig(paths);
  const general = settingNames();
  return settingsNamed(settingNames(config), paths.configFile, config).filter(
    ({ name, value }) => value !== null || general.includes(name),
  );
}

/** One setting, also without a value. Throws INVALID_REQUEST and CONFIG_INVALID. */
export function readSetting(paths: Pick<Paths, 'configFile'>, name: string): Setting {
  checkSettingName(name);
  const [setting] = settingsNamed([name], paths.configFile, loadConfig(paths));
  return setting ?? { name, value: null, origin: 'default', at: null };
}

function settingsNamed(names: readonly string[], file: string, config: object): Setting[] {
  const source = readConfigFile(file);
  const root = parseTree(source, [], { allowTrailingComma: true, allowEmptyContent: true });
  const environment = environmentSettings();
  return names.map((name): Setting => {
    const path = pathOf(name);
    const value = path.reduce<unknown>((inner, key) => (inner as Container)?.[key], config);
    const variable = environment.find((each) => each.name === name)?.variable;
    if (variable !== undefined) return { name, value, origin: 'environment', at: variable };
    const node = root && findNodeAtLocation(root, path);
    if (node === undefined) return { name, value: value ?? null, origin: 'default', at: null };
    const { line, column } = position(source, node.offset);
    return { name, value, origin: 'file', at: `${file}:${String(line)}:${String(column)}` };
  });
}

type Container = Readonly<Record<string, unknown>> | undefined;

/** Throws INVALID_REQUEST for an unknown name, with a suggestion. */
export function checkSettingName(name: string): void {
  const names = settingNames();
  if (names.includes(name) || isBelowAName(name)) return;
  throw new SvcError('INVALID_REQUEST', `there is no setting ${JSON.stringify(name.slice(0, 80))}`, {
    hint: hintFor(name, names),
  });
}

function isBelowAName(name: string): boolean {
  const [section = '', chosen = '', ...rest] = pathOf(name);
  const isName = section === 'models' ? isModelName(chosen) : PROVIDER_NAME.test(chosen);
  return isName && namedSettings().includes([section, 'NAME', ...rest].join('.'));
}

function hintFor(name: string, names: readonly string[]): string {
  const [section = '', chosen = '', ...rest] = name.split('.');
  if (section === 'models') return hintForModels(name, names);
  const below = namedSettings().filter((each) => each.startsWith(`${section}.NAME.`));
  if (below.length > 0) {
    if (isNameOfSecret(name)) return `a key is not kept in the config: svc provider set ${chosen} --api-key-stdin`;
    const typed = [section, 'NAME', ...rest].join('.');
    const likely = suggest(typed, below)?.replace('.NAME.', `.${chosen}.`);
    if (likely === name) return `small letters, digits and dashes can be the name of a provider; \`local\` is taken`;
    if (likely !== undefined && rest.length > 0) return `did you mean "${likely}"?`;
    return `${section}.NAME has: ${below.map((each) => each.replace(`${section}.NAME.`, '')).join(', ')}`;
  }
  const inside = names.filter((each) => each.startsWith(`${name}.`));
  if (inside.length > 0) return `it is a section: ${inside.join(', ')}`;
  const likely = suggest(name, names) ?? names.find((each) => each.endsWith(`.${name}`));
  return likely === undefined ? '`svc config show` lists them all' : `did you mean "${likely}"?`;
}

/** For a name in the section `models`, where settings stand beside names of models. */
function hintForModels(name: string, names: readonly string[]): string {
  const own = names.filter((each) => each.startsWith('models.'));
  const dot = name.lastIndexOf('.');
  const chosen = name.slice(0, dot);
  const below = namedSettings().filter((each) => each.startsWith('models.NAME.'));
  const likely =
    chosen !== 'models'
      ? suggest(`models.NAME${name.slice(dot)}`, below)?.replace('models.NAME', chosen)
      : suggest(name, own);
  if (likely === name)
    return `${JSON.stringify(chosen.slice('models.'.length))} cannot be the name of a model; \`default\` stands for the default one`;
  if (likely !== undefined) return `did you mean "${likely}"?`;
  const keys = below.map((each) => each.replace('models.NAME.', '')).filter((each) => !each.includes('.'));
  return `the settings are ${own.join(', ')}; a model NAME has ${keys.map((each) => `models.NAME.${each}`).join(', ')} and models.NAME.sampling`;
}

/**
 * Sets a setting to a typed value: as JSON if that fits the setting, else as a string. Resolves with the value
 * written. Throws INVALID_REQUEST for a wrong value, and CONFIG_INVALID when the file has another error; then nothing
 * is written.
 */
export async function setSetting(paths: Pick<Paths, 'configFile'>, name: string, typed: string): Promise<unknown> {
  checkSettingName(name);
  const path = pathOf(name);
  return await changeFile(paths.configFile, (source) => {
    const json = parsedJson(typed);
    const candidates = [...(json === undefined ? [] : [json]), typed];
    const attempts = candidates.map((value) => {
      const text = setInText(source, path, value);
      return { value, text, problems: parseConfig(text).problems };
    });
    const isAt = ({ message }: ConfigProblem): boolean =>
      message.startsWith(`"${name}"`) || message.startsWith(`"${name}.`);
    const fits = attempts.find(({ problems }) => !problems.some(isAt));
    if (fits === undefined) {
      // Report the error of the JSON value: a list with a wrong entry must not be reported as "must be a list".
      const [{ message } = { message: '' }] = attempts[0]?.problems.filter(isAt) ?? [];
      throw new SvcError('INVALID_REQUEST', message.replaceAll('"', ''), { hint: exampleOf(name, message) });
    }
    const [elsewhere] = fits.problems;
    if (elsewhere !== undefined) throw wrongFile(paths.configFile, elsewhere);
    return { text: fits.text, result: fits.value };
  });
}

/** Returns a command that sets the setting, from its default or, for a list, its form. */
function exampleOf(name: string, message: string): string {
  if (message.includes('must be a list')) return `for example: svc config set ${name} '["a", "b"]'`;
  const value = pathOf(name).reduce<unknown>((inner, key) => (inner as Container)?.[key], parseConfig('').config);
  return typeof value === 'string' || typeof value === 'number' || typeof value === 'boolean'
    ? `for example: svc config set ${name} ${String(value)}`
    : `without a value of its own, the default applies: svc config unset ${name}`;
}

/** A change of one setting or section; the value undefined removes it. */
export interface Change {
  readonly path: readonly string[];
  readonly value: unknown;
}

/**
 * Makes several changes at once, also of sections. Resolves with true if the file has changed. Throws INVALID_REQUEST
 * for a wrong value, and CONFIG_INVALID when the file has another error; then nothing is written.
 */
export async function changeConfig(paths: Pick<Paths, 'configFile'>, changes: readonly Change[]): Promise<boolean> {
  return await changeFile(paths.configFile, (source) => {
    const text = changes.reduce(
      (before, { path, value }) =>
        value === undefined ? removeFromText(before, path) : setInText(before, path, value),
      source,
    );
    const [problem] = parseConfig(text).problems;
    if (problem === undefined) return { text, result: text !== source };
    const isOurs = changes.some(({ path }) => problem.message.startsWith(`"${path.join('.')}`));
    if (isOurs) throw new SvcError('INVALID_REQUEST', problem.message.replaceAll('"', ''));
    throw wrongFile(paths.configFile, problem);
  });
}

/**
 * Removes a setting, or an unknown key, from the file, even if the file has other errors. Resolves with true if it was
 * in the file. Throws INVALID_REQUEST when it is neither in the file nor a setting.
 */
export async function unsetSetting(paths: Pick<Paths, 'configFile'>, name: string): Promise<boolean> {
  const path = pathOf(name);
  return await changeFile(paths.configFile, (source) => {
    const root = parseTree(source, [], { allowTrailingComma: true, allowEmptyContent: true });
    const isThere = root !== undefined && findNodeAtLocation(root, path) !== undefined;
    if (!isThere) checkSettingName(name);
    return { text: isThere ? removeFromText(source, path) : source, result: isThere };
  });
}

/**
 * Reads, changes and writes the file under a lock that every svc process respects. A reader sees the old file or the
 * new one; a link stays a link, and the mode is kept.
 */
async function changeFile<Result>(
  file: string,
  change: (source: string) => { readonly text: string; readonly result: Result },
): Promise<Result> {
  try {
    return await withFileLock(`${file}.lock`, { what: 'the config', retries: LOCK_RETRIES }, async () => {
      const source = readConfigFile(file);
      refuseWhatCannotBeEdited(file, source);
      const { text, result } = change(source);
      if (text !== source) await writeFileAtomic(file, text, existsSync(file) ? {} : { mode: 0o600 });
      return result;
    });
  } catch (error) {
    throw asSvcError(file, error);
  }
}

/** Edits need valid JSON, objects and unique keys. A wrong value is accepted: the edit may correct it. */
function refuseWhatCannotBeEdited(file: string, source: string): void {
  const problems = parseConfig(source).problems;
  const problem = problems.find(({ message }) => /^not valid JSON|^duplicate key|must be an object$/.test(message));
  if (problem !== undefined) throw wrongFile(file, problem, `nothing was changed; edit ${file}`);
}

function wrongFile(
  file: string,
  { line, column, message }: ConfigProblem,
  hint = `nothing was changed; edit ${file}, or remove the key with \`svc config unset\``,
): SvcError {
  return new SvcError('CONFIG_INVALID', `${file}:${String(line)}:${String(column)}: ${message}`, { hint });
}

function asSvcError(file: string, error: unknown): unknown {
  const { code, message } = error as NodeJS.ErrnoException;
  if (error instanceof SvcError || code === undefined) return error;
  return new SvcError('CANNOT_WRITE', `cannot write ${file}: ${message}`, {
    hint: spaceHintOf(error) ?? 'make it and its directory writable, or point SVC_CONFIG at another',
    cause: error,
  });
}

/** `anyName`: placeholder for user-chosen names. */
function leavesOf(schema: Schema, path: readonly string[], config: unknown, anyName?: string): string[] {
  const below = (key: string, inner: Schema): string[] =>
    leavesOf(inner, [...path, key], (config as Container)?.[key], anyName);
  const entries = partOf(schema, 'entries');
  const rest = partOf(schema, 'rest');
  if (entries !== undefined) {
    const own = Object.entries(entries).flatMap(([key, inner]) => below(key, inner));
    if (rest === undefined) return own;
    const others = Object.keys((config as Container) ?? {}).filter((key) => !Object.hasOwn(entries, key));
    return [...own, ...(anyName === undefined ? others : [anyName]).flatMap((name) => below(name, rest))];
  }
  const value = partOf(schema, 'value');
  // A record with plain values is one setting.
  if (value === undefined || partOf(value, 'entries') === undefined) return [path.join('.')];
  const names = anyName === undefined ? Object.keys((config as Container) ?? {}) : [anyName];
  return names.flatMap((name) => below(name, value));
}
