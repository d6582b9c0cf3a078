/** File names of a model in parts: `NAME-00001-of-00003.gguf` and so on. */
import { basename, dirname, join } from 'node:path';

export const PART = /^(.*)-(\d{5})-of-(\d{5})\.gguf$/;

/** @param index from 0 */
export function partName(stem: string, index: number, count: number): string {
  const five = (number: number): string => String(number).padStart(5, '0');
  return `${stem}-${five(index + 1)}-of-${five(count)}.gguf`;
}

/** The name that the model would have as one file. */
export function wholeName(path: string): string {
  const stem = PART.exec(basename(path))?.[1];
  return stem === undefined ? path : join(dirname(path), `${stem}.gguf`);
}

/** Paths of all parts of the model that `path` is a part of. REQUIRES: `path` is named as one of `count` parts. */
export function partsBeside(path: string, count: number): string[] {
  const stem = PART.exec(basename(path))?.[1] ?? '';
  return Array.from({ length: count }, (_, index) => join(dirname(path), partName(stem, index, count)));
}
