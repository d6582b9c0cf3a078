/**
 * The settings one by one: their names, which follow from the schema, the value in force and where
 * it comes from; and the way to change one in the file.
 */
import { existsSync } from 'node:fs';
import { findNodeAtLocation, parseTree } from 'jsonc-parser';
import writeFileAtomic from 'write-file-atomic';
import { SvcError } from '../protocol/errors.ts';
import { suggest } from '../protocol/suggest.ts';
import { removeFromText, setInText } from './config-edit.ts';
import {
  ConfigSchema,
  environmentSettings,
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

/** `http.host` and all the others, in the order of the schema. */
export function settingNames(): string[] {
  return leavesOf(ConfigSchema as Schema, []);
}

/** All settings in force. Throws CONFIG_INVALID. */
export function listSettings(paths: Pick<Paths, 'configFile'>): Setting[] {
  const config = loadConfig(paths);
  const source = readConfigFile(paths.configFile);
  const root = parseTree(source, [], { allowTrailingComma: true, allowEmptyContent: true });
  const environment = environmentSettings();
  return settingNames().map((name): Setting => {
    const value = name.split('.').reduce<unknown>((inner, key) => (inner as Readonly<Record<string, unknown>>)[key], {
      ...config,
    });
    const variable = environment.find((each) => each.name === name)?.variable;
    if (variable !== undefined) return { name, value, origin: 'environment', at: variable };
    const node = root && findNodeAtLocation(root, name.split('.'));
    if (node === undefined) return { name, value: value ?? null, origin: 'default', at: null };
    const { line, column } = position(source, node.offset);
    return { name, value, origin: 'file', at: `${paths.configFile}:${String(line)}:${String(column)}` };
  });
}

/** Throws INVALID_REQUEST, with the name that may have been meant. */
export function checkSettingName(name: string): void {
  const names = settingNames();
  if (names.includes(name)) return;
  const inside = names.filter((each) => each.startsWith(`${name}.`));
  const likely = suggest(name, names) ?? names.find((each) => each.endsWith(`.${name}`));
  throw new SvcError('INVALID_REQUEST', `there is no setting ${JSON.stringify(name.slice(0, 80))}`, {
    hint:
      inside.length > 0
        ? `it is a section: ${inside.join(', ')}`
        : likely === undefined
          ? '`svc config show` lists them all'
          : `did you mean "${likely}"?`,
  });
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
}

function leavesOf(schema: Schema, path: readonly string[]): string[] {
  const entries = entriesOf(schema);
  if (entries === undefined) return [path.join('.')];
  return Object.entries(entries).flatMap(([key, inner]) => leavesOf(inner, [...path, key]));
}

function entriesOf(schema: Schema): Schema['entries'] {
  if (schema.entries !== undefined) return schema.entries;
  const inner = [schema.wrapped, ...(schema.pipe ?? [])];
  return inner
    .filter((each) => each !== undefined && each !== schema)
    .map((each) => (each === undefined ? undefined : entriesOf(each)))
    .find((entries) => entries !== undefined);
}
