/**
 * The settings one by one: their names, which follow from the schema, the value in force and where
 * it comes from; and the way to change one in the file.
 */
import { existsSync } from 'node:fs';
import { findNodeAtLocation, parseTree } from 'jsonc-parser';
import writeFileAtomic from 'write-file-atomic';
import { SvcError } from '../protocol/errors.ts';
import { suggest } from '../protocol/suggest.ts';
import { PROVIDER_NAME } from './catalogue.ts';
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
import { withFileLock } from './file-lock.ts';
import type { Paths } from './paths.ts';

export interface Setting {
  readonly name: string;
  /** null: it is not set, and what happens then stands in docs/configuration.md. */
  readonly value: unknown;
  readonly origin: 'default' | 'file' | 'environment';
  /** `FILE:LINE:COLUMN`, or the variable. null for a default. */
  readonly at: string | null;
}

const LOCK_RETRIES = 50;

/** `http.host` and all the others, in the order of the schema. Of what a person names, those of the names in `config`. */
export function settingNames(config: object = {}): string[] {
  return leavesOf(ConfigSchema as Schema, [], config);
}

/** Those below a name that a person chooses, with NAME in its place: `providers.NAME.base_url`. */
export function namedSettings(): string[] {
  return leavesOf(ConfigSchema as Schema, [], {}, 'NAME').filter((name) => name.includes('.NAME.'));
}

/** All settings in force; below a name that a person chose, those that have a value. Throws CONFIG_INVALID. */
export function listSettings(paths: Pick<Paths, 'configFile'>): Setting[] {
  const config = loadConfig(paths);
  const general = settingNames();
  return settingsNamed(settingNames(config), paths.configFile, config).filter(
    ({ name, value }) => value !== null || general.includes(name),
  );
}

/** One of them, though it may have no value. Throws INVALID_REQUEST and CONFIG_INVALID. */
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
    const value = name.split('.').reduce<unknown>((inner, key) => (inner as Container)?.[key], config);
    const variable = environment.find((each) => each.name === name)?.variable;
    if (variable !== undefined) return { name, value, origin: 'environment', at: variable };
    const node = root && findNodeAtLocation(root, name.split('.'));
    if (node === undefined) return { name, value: value ?? null, origin: 'default', at: null };
    const { line, column } = position(source, node.offset);
    return { name, value, origin: 'file', at: `${file}:${String(line)}:${String(column)}` };
  });
}

type Container = Readonly<Record<string, unknown>> | undefined;

/** Throws INVALID_REQUEST, with the name that may have been meant. */
export function checkSettingName(name: string): void {
  const names = settingNames();
  if (names.includes(name) || isBelowAName(name)) return;
  throw new SvcError('INVALID_REQUEST', `there is no setting ${JSON.stringify(name.slice(0, 80))}`, {
    hint: hintFor(name, names),
  });
}

function isBelowAName(name: string): boolean {
  const [section = '', chosen = '', ...rest] = name.split('.');
  return PROVIDER_NAME.test(chosen) && namedSettings().includes([section, 'NAME', ...rest].join('.'));
}

function hintFor(name: string, names: readonly string[]): string {
  const [section = '', chosen = '', ...rest] = name.split('.');
  const below = namedSettings().filter((each) => each.startsWith(`${section}.NAME.`));
  if (below.length > 0) {
    if (isNameOfSecret(name)) return `a key is not kept in the config: svc provider set ${chosen} --api-key-stdin`;
    const typed = [section, 'NAME', ...rest].join('.');
    const likely = suggest(typed, below)?.replace('.NAME.', `.${chosen}.`);
    if (likely !== undefined && rest.length > 0) return `did you mean "${likely}"?`;
    return `below a name there are: ${below.map((each) => each.replace(`${section}.NAME.`, '')).join(', ')}`;
  }
  const inside = names.filter((each) => each.startsWith(`${name}.`));
  if (inside.length > 0) return `it is a section: ${inside.join(', ')}`;
  const likely = suggest(name, names) ?? names.find((each) => each.endsWith(`.${name}`));
  return likely === undefined ? '`svc config show` lists them all' : `did you mean "${likely}"?`;
}

/**
 * Writes a value as it was typed: JSON where that fits the setting, a text otherwise. Resolves with
 * what was written. Throws INVALID_REQUEST when the setting does not take it and CONFIG_INVALID when
 * the file is wrong elsewhere; neither writes anything.
 */
export async function setSetting(paths: Pick<Paths, 'configFile'>, name: string, typed: string): Promise<unknown> {
  checkSettingName(name);
  const path = name.split('.');
  return await changeFile(paths.configFile, (source) => {
    const candidates = [...jsonIn(typed), typed];
    const attempts = candidates.map((value) => {
      const text = setInText(source, path, value);
      return { value, text, problems: parseConfig(text).problems };
    });
    const isAt = ({ message }: ConfigProblem): boolean =>
      message.startsWith(`"${name}"`) || message.startsWith(`"${name}.`);
    const fits = attempts.find(({ problems }) => !problems.some(isAt));
    if (fits === undefined) {
      // Of the reading that came nearest: a list with a wrong entry is not "no list".
      const [{ message } = { message: '' }] = attempts[0]?.problems.filter(isAt) ?? [];
      throw new SvcError('INVALID_REQUEST', message.replaceAll('"', ''), {
        hint: `see ${name} in docs/configuration.md; a list is written as '["a", "b"]'`,
      });
    }
    const [elsewhere] = fits.problems;
    if (elsewhere !== undefined) throw wrongFile(paths.configFile, elsewhere);
    return { text: fits.text, result: fits.value };
  });
}

/** undefined takes it out. */
export interface Change {
  readonly path: readonly string[];
  readonly value: unknown;
}

/**
 * Several changes at once, of sections too. Resolves with whether the file is another one now. Throws
 * INVALID_REQUEST when a value cannot stand where it is put, and CONFIG_INVALID when the file is wrong
 * elsewhere; neither writes anything.
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
 * Takes a setting, or a key that is none, out of the file, whatever else is wrong with it. Resolves
 * with whether it stood there. Throws INVALID_REQUEST when it is neither there nor a setting.
 */
export async function unsetSetting(paths: Pick<Paths, 'configFile'>, name: string): Promise<boolean> {
  const path = name.split('.');
  return await changeFile(paths.configFile, (source) => {
    const root = parseTree(source, [], { allowTrailingComma: true, allowEmptyContent: true });
    const isThere = root !== undefined && findNodeAtLocation(root, path) !== undefined;
    if (!isThere) checkSettingName(name);
    return { text: isThere ? removeFromText(source, path) : source, result: isThere };
  });
}

/**
 * Read, change, write, under a lock that every svc respects. A reader sees the old file or the new
 * one; a link stays a link, and the mode stays.
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

/** Edits need objects and keys that are there once; a wrong value may well be what the edit mends. */
function refuseWhatCannotBeEdited(file: string, source: string): void {
  const problems = parseConfig(source).problems;
  const problem = problems.find(({ message }) => /^not valid JSON|must be an object$|stands here twice$/.test(message));
  if (problem !== undefined) throw wrongFile(file, problem);
}

function wrongFile(file: string, { line, column, message }: ConfigProblem): SvcError {
  return new SvcError('CONFIG_INVALID', `${file}:${String(line)}:${String(column)}: ${message}`, {
    hint: `nothing was changed; edit ${file}, or take the key out with \`svc config unset\``,
  });
}

function asSvcError(file: string, error: unknown): unknown {
  const { code, message } = error as NodeJS.ErrnoException;
  if (error instanceof SvcError || code === undefined) return error;
  return new SvcError('CANNOT_WRITE', `cannot write ${file}: ${message}`, {
    hint: 'make it and its directory writable, or point SVC_CONFIG at another',
    cause: error,
  });
}

function jsonIn(typed: string): unknown[] {
  try {
    return [JSON.parse(typed)];
  } catch {
    return [];
  }
}

/** As much of a valibot schema as leads to its keys. */
interface Schema {
  readonly entries?: Readonly<Record<string, Schema>>;
  readonly pipe?: readonly Schema[];
  readonly wrapped?: Schema;
  /** Of a record. */
  readonly value?: Schema;
}

/** `anyName`: stands for every name that a person may choose. */
function leavesOf(schema: Schema, path: readonly string[], config: unknown, anyName?: string): string[] {
  const below = (key: string, inner: Schema): string[] =>
    leavesOf(inner, [...path, key], (config as Container)?.[key], anyName);
  const entries = partOf(schema, 'entries');
  if (entries !== undefined) return Object.entries(entries).flatMap(([key, inner]) => below(key, inner));
  const value = partOf(schema, 'value');
  // Names with plain values are one setting.
  if (value === undefined || partOf(value, 'entries') === undefined) return [path.join('.')];
  const names = anyName === undefined ? Object.keys((config as Container) ?? {}) : [anyName];
  return names.flatMap((name) => below(name, value));
}

function partOf<Part extends 'entries' | 'value'>(schema: Schema, part: Part): Schema[Part] | undefined {
  const found = schema[part];
  // Of a literal or a bound it is the value itself.
  if (typeof found === 'object') return found;
  const inner = [schema.wrapped, ...(schema.pipe ?? [])];
  return inner
    .filter((each) => each !== undefined && each !== schema)
    .map((each) => (each === undefined ? undefined : partOf(each, part)))
    .find((each) => each !== undefined);
}
