/**
 * Ids of models, as typed and as used in requests and URLs. An id is unique in a store, ignoring case, and never
 * part of a path.
 */
import { parse } from 'node:path';
import { SvcError } from '../../protocol/errors.ts';
import { BUILTIN_ID, DEFAULT_NAME } from '../../protocol/model/named.ts';

const LONGEST = 128;
const VALID = /^[a-z0-9](?:[a-z0-9._-]*[a-z0-9])?$/i;

/** @throws SvcError INVALID_REQUEST */
export function checkModelId(id: string): void {
  if (id.toLowerCase() === BUILTIN_ID) {
    throw new SvcError('INVALID_REQUEST', `the name ${BUILTIN_ID} is taken by the built-in model`, { param: 'name' });
  }
  if (id.toLowerCase() === DEFAULT_NAME) {
    throw new SvcError('INVALID_REQUEST', `the name ${DEFAULT_NAME} means the default model`, {
      hint: 'choose another name; to set the default model: svc model default NAME',
      param: 'name',
    });
  }
  if (!VALID.test(id) || id.length > LONGEST) {
    throw new SvcError('INVALID_REQUEST', `${JSON.stringify(id.slice(0, LONGEST))} cannot be the name of a model`, {
      hint: `up to ${LONGEST} letters, digits, dots, dashes and underscores; a letter or digit first and last`,
      param: 'name',
    });
  }
}

/**
 * Checks the id of a LoRA adapter, which is unique among those of its model. A number is a place in their list.
 * @throws SvcError INVALID_REQUEST
 */
export function checkAdapterId(id: string): void {
  if (VALID.test(id) && id.length <= LONGEST && !/^\d+$/.test(id)) return;
  throw new SvcError('INVALID_REQUEST', `${JSON.stringify(id.slice(0, LONGEST))} cannot be the name of an adapter`, {
    hint: `up to ${LONGEST} letters, digits, dots, dashes and underscores, not only digits; a letter or digit first and last`,
    param: 'name',
  });
}

/** As `modelIdFor`, for an adapter. */
export function adapterIdFor(path: string, taken: ReadonlySet<string>): string {
  const id = modelIdFor(path, taken);
  return /^\d+$/.test(id) ? modelIdFor(`adapter-${id}`, taken) : id;
}

/** Returns an id made from the file name, with `-2`, `-3` and so on appended while it is taken. */
export function modelIdFor(path: string, taken: ReadonlySet<string>): string {
  const spelled = parse(path)
    .name.normalize('NFKD')
    .replace(/\p{M}/gu, '')
    .replace(/[^a-z0-9._-]+/gi, '-')
    .slice(0, LONGEST - 8);
  const plain = withoutEdges(spelled);
  const base = plain === '' || plain.toLowerCase() === BUILTIN_ID ? `model-${plain}`.replace(/-$/, '') : plain;
  return freeId(base, taken);
}

/** Returns the wanted id, with `-2`, `-3` and so on appended while it is taken. */
export function freeId(wanted: string, taken: ReadonlySet<string>): string {
  let id = wanted;
  for (let number = 2; taken.has(id.toLowerCase()); number += 1) id = `${wanted}-${number}`;
  return id;
}

/** From its first letter or digit to its last. */
function withoutEdges(text: string): string {
  const isEdge = (at: number): boolean => !/[a-z0-9]/i.test(text.charAt(at));
  let from = 0;
  let to = text.length;
  while (from < to && isEdge(from)) from += 1;
  while (to > from && isEdge(to - 1)) to -= 1;
  return text.slice(from, to);
}
