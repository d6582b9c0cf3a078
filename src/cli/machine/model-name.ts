import { resolve } from 'node:path';
import { existsSync } from 'node:fs';

/**
 * Turns a typed model into the form that the daemon and the store take: a path becomes `file:` and the absolute path.
 * `vendor/name` is a name unless that file exists.
 */
export function modelName(typed: string): string {
  const isPath =
    typed.toLowerCase().endsWith('.gguf') ||
    /^(\.{0,2}|[A-Za-z]:)[/\\]/.test(typed) ||
    (/[/\\]/.test(typed) && existsSync(typed));
  return isPath ? `file:${resolve(typed)}` : typed;
}
