import { resolve } from 'node:path';
import { statSync } from 'node:fs';
import { orElse } from '../../protocol/foreign-text.ts';
import { DEFAULT_NAME } from '../../protocol/model/named.ts';

/**
 * Turns a typed model into the form that the daemon and the store take: a path becomes `file:` and the absolute path.
 * `vendor/name` is a name unless that file exists; a directory of that name does not count.
 */
export function modelName(typed: string): string {
  const isPath =
    typed.toLowerCase().endsWith('.gguf') ||
    /^(\.{0,2}|[A-Za-z]:)[/\\]/.test(typed) ||
    (/[/\\]/.test(typed) && orElse(() => statSync(typed).isFile(), false));
  return isPath ? `file:${resolve(typed)}` : typed;
}

/** Returns `modelName`; undefined for the default model. */
export function requestedModel(typed: string | undefined): string | undefined {
  return typed === undefined || typed === DEFAULT_NAME ? undefined : modelName(typed);
}
