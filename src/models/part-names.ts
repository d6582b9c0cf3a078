/** The names of a model's files, where it is in several: `NAME-00001-of-00003.gguf` and so on. */
import { basename, dirname, join } from 'node:path';

export const PART = /^(.*)-(\d{5})-of-(\d{5})\.gguf$/;

/** @param index from 0 */
export function partName(stem: string, index: number, count: number): string {
  const five = (number: number): string => String(number).padStart(5, '0');
  return `${stem}-${five(index + 1)}-of-${five(count)}.gguf`;
}

/** The file as it would be called in one piece. */
export function wholeName(path: string): string {
  const stem = PART.exec(basename(path))?.[1];
  return stem === undefined ? path : join(dirname(path), `${stem}.gguf`);
}

/** All the parts of the model of which `path`, named as such, is one. REQUIRES: `path` is named as one of `count`. */
export function partsBeside(path: string, count: number): string[] {
  const stem = PART.exec(basename(path))?.[1] ?? '';
  return Array.from({ length: count }, (_, index) => join(dirname(path), partName(stem, index, count)));
}
