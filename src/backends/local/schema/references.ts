/** Follows the references of a schema. */
import { decodePercent } from '../../../protocol/foreign-text.ts';
import { LIMITS } from '../../../protocol/limits.ts';
import { invalid } from '../../../protocol/validate.ts';
import { isObject, type Json, type JsonObject } from './keywords.ts';
import type { Work } from './work.ts';

export class References {
  readonly #root: Json;
  readonly #work: Work;

  /** `root`: the schema that they point into. */
  constructor(root: Json, work: Work) {
    this.#root = root;
    this.#work = work;
  }

  /** Follows a chain of `$ref`s. Throws INVALID_REQUEST, naming `path`. */
  resolve(schema: Json, path: string): Json {
    this.#work.visit(schema);
    let found = schema;
    for (let steps = 0; isObject(found) && found['$ref'] !== undefined; steps++) {
      if (steps > LIMITS.schemaDepth) throw notWithin(path);
      found = this.#target(found['$ref'], path);
      this.#work.visit(found);
    }
    return found;
  }

  #target(reference: Json, path: string): Json {
    if (typeof reference !== 'string' || !/^#(\/|$)/.test(reference)) throw notWithin(path);
    let target: Json | undefined = this.#root;
    for (const part of reference.split('/').slice(1)) {
      const name = decodePercent(part)?.replaceAll('~1', '/').replaceAll('~0', '~');
      const holder: Json | undefined = target;
      target = undefined;
      if (name !== undefined && typeof holder === 'object' && holder !== null && Object.hasOwn(holder, name))
        target = (holder as JsonObject)[name];
    }
    if (target === undefined) throw invalid(`${path}.$ref`, 'points to nothing in this schema');
    return target;
  }
}

function notWithin(path: string): Error {
  return invalid(`${path}.$ref`, 'must point into this schema, for instance "#/$defs/NAME", without a cycle');
}
