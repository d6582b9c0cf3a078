/**
 * Reads Ollama's Modelfile, as settings of a name (`models.NAME`). An instruction that svc cannot honour is refused
 * with its line, and one that changes no answer is named: nothing is dropped silently.
 */
import { SvcError } from '../../protocol/errors.ts';
import type { ModelSettings } from '../../protocol/model/settings.ts';
import type { ModelAdapter } from '../../protocol/records.ts';
import { suggest } from '../../protocol/suggest.ts';
import { PARAMETERS, type Treatment } from './parameters.ts';

export interface Modelfile {
  /** Has `from`. */
  readonly settings: ModelSettings & { readonly from: string };
  /** Files of LoRA adapters, as written there. */
  readonly adapters: readonly string[];
  /** What was skipped, and why: `line 3: LICENSE: …`. */
  readonly skipped: readonly string[];
}

type Rule = Treatment['kind'] | 'parameter' | 'adapter';

/** Every instruction; docs/models.md has the same table. */
export const INSTRUCTIONS: Readonly<Record<string, { readonly kind: Rule; readonly why: string }>> = {
  FROM: { kind: 'set', why: 'from' },
  PARAMETER: { kind: 'parameter', why: 'see its table' },
  SYSTEM: { kind: 'set', why: 'system' },
  LICENSE: { kind: 'skipped', why: 'the licence is read from the model file' },
  REQUIRES: { kind: 'skipped', why: 'it names a version of Ollama' },
  TEMPLATE: { kind: 'refused', why: 'svc uses the chat template of the model file' },
  RENDERER: { kind: 'refused', why: 'svc uses the chat template of the model file' },
  PARSER: { kind: 'refused', why: 'svc finds the format of calls and reasoning in the chat template' },
  ADAPTER: { kind: 'adapter', why: 'the file is added to the model of FROM, and lora has it with scale 1' },
  MESSAGE: { kind: 'refused', why: 'a name has no example messages: send them with the request' },
};

interface Instruction {
  readonly line: number;
  readonly name: string;
  readonly value: string;
}

/** Throws INPUT_INVALID with the line. */
export function parseModelfile(text: string, file: string): Modelfile {
  let settings: ModelSettings = {};
  const skipped: string[] = [];
  const adapters: string[] = [];
  for (const { line, name, value } of instructionsOf(text, file)) {
    const rule = INSTRUCTIONS[name];
    if (rule === undefined) throw wrong(file, line, `unknown instruction ${name}`, hintFor(name));
    if (rule.kind === 'refused') throw wrong(file, line, `${name} is not supported: ${rule.why}`);
    if (rule.kind === 'skipped') skipped.push(`line ${String(line)}: ${name}: ${rule.why}`);
    else if (value === '') throw wrong(file, line, `${name} needs a value`);
    else if (rule.kind === 'parameter') settings = withParameter(settings, { line, name, value }, file, skipped);
    else if (rule.kind === 'adapter') adapters.push(value);
    else if (name === 'FROM' && settings.from !== undefined) throw wrong(file, line, 'FROM is there twice');
    else settings = { ...settings, [rule.why]: value };
  }
  const { from } = settings;
  if (from === undefined) throw new SvcError('INPUT_INVALID', `${file} has no FROM`, { hint: 'begin with FROM MODEL' });
  return { settings: { ...settings, from }, adapters, skipped };
}

function withParameter(
  settings: ModelSettings,
  { line, value: typed }: Instruction,
  file: string,
  skipped: string[],
): ModelSettings {
  const [, name = '', rest = ''] = /^(\S+)\s*([\s\S]*)$/.exec(typed) ?? [];
  const key = name.toLowerCase();
  const rule = Object.hasOwn(PARAMETERS, key) ? PARAMETERS[key] : undefined;
  const likely = suggest(key, Object.keys(PARAMETERS));
  if (rule === undefined) {
    const hint = likely === undefined ? undefined : `did you mean ${likely}?`;
    throw wrong(file, line, `unknown parameter ${name.slice(0, 64)}`, hint);
  }
  if (rule.kind === 'refused') throw wrong(file, line, `PARAMETER ${key} is not supported: ${rule.why}`);
  if (rule.kind === 'skipped') {
    skipped.push(`line ${String(line)}: PARAMETER ${key}: ${rule.why}`);
    return settings;
  }
  try {
    return rule.to(unquoted(rest), settings);
  } catch (error) {
    throw wrong(file, line, `PARAMETER ${key} ${(error as Error).message}`);
  }
}

/** Splits the text into instructions; a value in """ may have several lines. */
function instructionsOf(text: string, file: string): Instruction[] {
  const lines = text.replace(/^\uFEFF/, '').split(/\r?\n/);
  const found: Instruction[] = [];
  for (let at = 0; at < lines.length; at++) {
    const line = at + 1;
    const source = (lines[at] ?? '').trim();
    if (source === '' || source.startsWith('#')) continue;
    const [, name = '', first = ''] = /^(\S+)\s*(.*)$/.exec(source) ?? [];
    const opened = first.indexOf('"""');
    if (opened === -1 || first.indexOf('"""', opened + 3) !== -1) {
      found.push({ line, name: name.toUpperCase(), value: unquoted(first) });
      continue;
    }
    // As typed, without the blanks around the line: only inside the quotes they count.
    const value = [(lines[at] ?? '').slice((lines[at] ?? '').indexOf('"""') + 3)];
    do {
      at += 1;
      if (at >= lines.length) throw wrong(file, line, `${name.toUpperCase()} has no closing """`);
      value.push(lines[at] ?? '');
    } while (!(value.at(-1) ?? '').includes('"""'));
    const whole = value.join('\n');
    const end = whole.indexOf('"""');
    if (whole.slice(end + 3).trim() !== '') throw wrong(file, at + 1, 'nothing may follow the closing """');
    const before = first.slice(0, opened);
    found.push({ line, name: name.toUpperCase(), value: before + trimmedLines(whole.slice(0, end)) });
  }
  return found;
}

/** Without the line breaks beside the quotes. */
function trimmedLines(text: string): string {
  return text.replace(/^[ \t]*\n/, '').replace(/\n[ \t]*$/, '');
}

function unquoted(text: string): string {
  const trimmed = text.trim();
  for (const quote of ['"""', '"']) {
    const isQuoted = trimmed.length >= 2 * quote.length && trimmed.startsWith(quote) && trimmed.endsWith(quote);
    if (isQuoted) return trimmed.slice(quote.length, -quote.length);
  }
  return trimmed;
}

function hintFor(name: string): string {
  const likely = suggest(name, Object.keys(INSTRUCTIONS));
  return likely === undefined
    ? `the instructions are ${Object.keys(INSTRUCTIONS).join(', ')}`
    : `did you mean ${likely}?`;
}

function wrong(file: string, line: number, what: string, hint?: string): SvcError {
  return new SvcError('INPUT_INVALID', `${file}:${String(line)}: ${what}`, hint === undefined ? {} : { hint });
}

/**
 * Writes settings as a Modelfile; those that it cannot express are named in comments. `adapters`: those of the model.
 */
export function toModelfile(from: string, settings: ModelSettings, adapters: readonly ModelAdapter[] = []): string {
  const lines = [`FROM ${from}`];
  const { lora = [] } = settings;
  const paths = lora.map(({ id, scale }) => (scale === 1 ? adapters.find((each) => each.id === id)?.path : undefined));
  const left: string[] = [];
  for (const [setting, value] of Object.entries(flat(settings))) {
    const parameter = Object.entries(PARAMETERS).find(([, rule]) => rule.kind === 'set' && rule.setting === setting);
    if (setting === 'lora' && !paths.includes(undefined)) lines.push(...paths.map((path) => `ADAPTER ${String(path)}`));
    else if (setting === 'system') lines.push(`SYSTEM """${String(value)}"""`);
    else if (setting === 'stop') lines.push(...(value as string[]).map((each) => `PARAMETER stop "${each}"`));
    else if (parameter === undefined || typeof value !== 'number') left.push(setting);
    else lines.push(`PARAMETER ${parameter[0]} ${String(value)}`);
  }
  // As comments: they would be lost otherwise.
  return [...lines, ...left.map((name) => `# ${name} has no form in a Modelfile`)].join('\n');
}

function flat({ sampling = {}, from: _, ...rest }: ModelSettings): Record<string, unknown> {
  return {
    ...rest,
    ...Object.fromEntries(Object.entries(sampling).map(([name, value]) => [`sampling.${name}`, value])),
  };
}
