/** The work that compiling schemas may take: a small schema can become huge through repeated references. */
import { LIMITS } from '../../../protocol/limits.ts';
import { invalid } from '../../../protocol/validate.ts';
import { isObject, type Json, type JsonObject } from './keywords.ts';

/** Bytes of JSON read per unit of work. */
const BYTES_READ = 64;
/** Bytes of rules written per unit. */
const BYTES_WRITTEN = 128;
/** Keywords checked per unit. */
const KEYWORDS = 8;

/** Units of work that are left for all tools of a request. */
export interface ToolsBudget {
  left: number;
}

/** Work of compiling one schema. A unit is about one schema compiled: a few microseconds. */
export class Work {
  readonly #param: string;
  readonly #tools: ToolsBudget | null;
  #left: number = LIMITS.schemaWork;

  /** `param`: name of the schema in errors. `tools`: the budget that it is a part of. */
  constructor(param: string, tools: ToolsBudget | null = null) {
    this.#param = param;
    this.#tools = tools;
  }

  /** Throws INVALID_REQUEST if less is left. */
  spend(units: number): void {
    this.#left -= units;
    if (this.#left < 0) throw invalid(this.#param, 'is too complex once its references are resolved');
    if (this.#tools === null) return;
    this.#tools.left -= units;
    if (this.#tools.left < 0)
      throw invalid(
        this.#param,
        'is too complex together with the tools before it: shorten the schemas, or offer fewer tools',
      );
  }

  /** Spends the cost of checking a schema, without the schemas in it. */
  visit(schema: Json): void {
    this.spend(1 + (isObject(schema) ? Object.keys(schema).length / KEYWORDS : 0));
  }

  /** Spends the cost of copying a schema's keywords and the list of its properties. */
  copy(schema: JsonObject): void {
    const { properties = null } = schema;
    this.spend(Object.keys(schema).length + (isObject(properties) ? Object.keys(properties).length : 0));
  }

  /** Spends the cost of reading the whole value. */
  read(value: unknown): void {
    this.spend(JSON.stringify(value).length / BYTES_READ);
  }

  /** Spends what following a reference costs, besides looking at its target. */
  follow(reference: string): void {
    this.spend(reference.length / BYTES_READ);
  }

  /** Spends what writing a rule costs. */
  write(rule: string): void {
    this.spend(rule.length / BYTES_WRITTEN);
  }
}
