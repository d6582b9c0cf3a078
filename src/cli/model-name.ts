import { resolve } from 'node:path';
import { existsSync } from 'node:fs';

/**
 * A model as it was typed, as the daemon and the store take it: a path to a file becomes `file:` and
 * an absolute path. `vendor/name` is a name unless a file lies there.
 */
export function modelName(typed: string): string {
  const isPath =
    typed.toLowerCase().endsWith('.gguf') ||
    /^(\.{0,2}|[A-Za-z]:)[/\\]/.test(typed) ||
    (/[/\\]/.test(typed) && existsSync(typed));
  return isPath ? `file:${resolve(typed)}` : typed;
}
