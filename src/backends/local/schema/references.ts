/** Follows the references of a schema, and merges what stands beside them. */
import { decodePercent } from '../../../protocol/foreign-text.ts';
import { LIMITS } from '../../../protocol/limits.ts';
import { invalid } from '../../../protocol/validate.ts';
import { isObject, withoutNotes, type Json, type JsonObject } from './keywords.ts';
import { merge } from './merge.ts';
import type { LeaveOut } from './leave-out.ts';
import type { Work } from './work.ts';

export class References {
  readonly #root: Json;
  readonly #work: Work;
  readonly #leaveOut: LeaveOut;

  /** `root`: the schema that they point into. */
  constructor(root: Json, work: Work, leaveOut: LeaveOut) {
    this.#root = root;
    this.#work = work;
    this.#leaveOut = leaveOut;
  }

  /**
   * The schema without `$ref`: its target and the keywords beside it as one. A target that is left out is any value.
   * Throws INVALID_REQUEST, naming `path`.
   */
  resolve(schema: Json, path: string): Json {
    this.#work.visit(schema);
    const beside: JsonObject[] = [];
    let found = schema;
    for (let steps = 0; isObject(found) && found['$ref'] !== undefined; steps++) {
      const { $ref: reference, ...keywords } = withoutNotes(found);
      if (Object.keys(keywords).length > 0) beside.push(keywords);
      found = steps > LIMITS.schemaDepth ? this.#elsewhere(path) : this.#target(reference as Json, path);
      this.#work.visit(found);
    }
    return beside.reduce<Json>((all, keywords) => this.merged(all, keywords, `${path}.$ref`), found);
  }

  /** The intersection of both. Throws INVALID_REQUEST, naming `path`. */
  merged(a: Json, b: Json, path: string): Json {
    const [one, other] = [this.resolve(a, path), this.resolve(b, path)];
    if (one === true || other === false) return other;
    if (other === true || one === false) return one;
    if (!isObject(one) || !isObject(other)) throw invalid(path, 'must have schemas: objects, true or false');
    this.#work.copy(one);
    this.#work.copy(other);
    const both = merge(one, other, () =>
      this.#leaveOut(path, 'cannot be enforced: the schemas cannot be merged into one'),
    );
    this.#work.read(both);
    return both;
  }

  #target(reference: Json, path: string): Json {
    if (typeof reference !== 'string' || !/^#(\/|$)/.test(reference)) return this.#elsewhere(path);
    this.#work.follow(reference);
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

  #elsewhere(path: string): Json {
    this.#leaveOut(`${path}.$ref`, 'must point into this schema, for instance "#/$defs/NAME", without a cycle');
    return true;
  }
}
