/**
 * What a coding agent sends in one turn with a tool call, as recorded: the first request, and the second with the
 * result of the tool. Long texts and ids were replaced; `[N characters]` is filled up again with as many characters.
 */
import { readFileSync } from 'node:fs';

export interface Recording {
  readonly agent: string;
  readonly version: string;
  readonly path: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly turns: readonly [Body, Body];
}

/** A request body, whose shape each test knows. */
export type Body = Record<string, any>;

const REPLACED = /^\[(\d+) characters\]$/;
const WORDS = 'the river runs under the old bridge and the miller counts his sacks of flour every evening ';

/** `replace` maps each string of the bodies and headers, before it is filled up. */
export function recording(
  agent: 'claude-code' | 'codex',
  replace: (text: string) => string = (text) => text,
): Recording {
  const text = readFileSync(new URL(`${agent}.json`, import.meta.url), 'utf8');
  return JSON.parse(text, (_key, value: unknown) =>
    typeof value === 'string' ? filled(replace(value)) : value,
  ) as Recording;
}

/** Returns text of this length; texts of different lengths differ from the start. */
export function textOf(length: number): string {
  const whole = `${String(length)} ${WORDS.repeat(Math.ceil(length / WORDS.length))}`;
  return whole.slice(0, length);
}

function filled(text: string): string {
  const [, length] = REPLACED.exec(text) ?? [];
  return length === undefined ? text : textOf(Number(length));
}
