/** The rules of a grammar in the making. */
import { LIMITS } from '../../../protocol/limits.ts';
import { invalid } from '../../../protocol/validate.ts';
import type { Work } from './work.ts';

export class Rules {
  readonly #param: string;
  readonly #prefix: string;
  readonly #work: Work;
  readonly #names = new Map<string, string>();
  readonly #rules: string[] = [];
  #reserved = 0;
  #length = 0;

  /** `param`: name of the schema in errors. `prefix`: beginning of the names of all rules. */
  constructor(param: string, prefix: string, work: Work) {
    this.#param = param;
    this.#prefix = prefix;
    this.#work = work;
  }

  /** Name of the rule for the expression, which is written when it is first requested. Throws INVALID_REQUEST. */
  nameOf(expression: string): string {
    const known = this.#names.get(expression);
    if (known !== undefined) return known;
    const name = `${this.#prefix}r${String(this.#names.size)}`;
    this.#names.set(expression, name);
    this.write(name, expression);
    return name;
  }

  /** Matches one of the expressions. */
  choice(expressions: readonly string[]): string {
    const different = [...new Set(expressions)];
    return different.length === 1 ? (different[0] as string) : this.nameOf(different.join(' | '));
  }

  /** A name for `write`. */
  reserve(): string {
    const name = `${this.#prefix}d${String(this.#reserved)}`;
    this.#reserved += 1;
    return name;
  }

  /** Throws INVALID_REQUEST. */
  write(name: string, expression: string): void {
    const rule = `${name} ::= ${expression}`;
    this.#length += rule.length;
    if (this.#length > LIMITS.grammarBytes)
      throw invalid(this.#param, `is too large: its grammar has more than ${String(LIMITS.grammarBytes)} bytes`);
    this.#work.write(rule);
    this.#rules.push(rule);
  }

  /** The grammar. Its first rule, the root, is `expression`. */
  grammar(expression: string): string {
    return `${this.#prefix}root ::= ${expression}\n${this.text}`;
  }

  /** All rules but a root. */
  get text(): string {
    return this.#rules.map((rule) => `${rule}\n`).join('');
  }
}
