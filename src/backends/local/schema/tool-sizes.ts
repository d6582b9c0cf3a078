/**
 * Bounds the schemas of the tools that may be called, also of those that svc does not enforce: llama.cpp converts all of
 * them to find the form of a call. Its converter calls itself for each property and each character of a name, and its
 * time grows with more than the square of the properties of an object.
 */
import { LIMITS } from '../../../protocol/limits.ts';
import { invalid } from '../../../protocol/validate.ts';

/** There are seven. */
const MOST_TYPES = 16;

export class ToolSizes {
  #members = 0;
  #nameCharacters = 0;

  /** Throws INVALID_REQUEST if the schema is too large, by itself or with those before it. */
  add(schema: unknown, param: string): void {
    if (Array.isArray(schema)) this.#addList(schema, param);
    else if (typeof schema === 'object' && schema !== null) this.#addObject(Object.entries(schema), param);
    if (this.#members > LIMITS.toolsMembers || this.#nameCharacters > LIMITS.toolsNameCharacters)
      throw invalid(param, 'is too large together with the tools before it: shorten the schemas, or offer fewer tools');
  }

  #addList(items: readonly unknown[], param: string): void {
    if (items.length > LIMITS.schemaEnumValues)
      throw invalid(param, `must have no list of more than ${String(LIMITS.schemaEnumValues)} values`);
    for (const item of items) this.add(item, param);
  }

  #addObject(members: readonly (readonly [name: string, value: unknown])[], param: string): void {
    if (members.length > LIMITS.schemaMembers)
      throw invalid(param, `must have no object with more than ${String(LIMITS.schemaMembers)} members`);
    this.#members += members.length;
    for (const [name, value] of members) {
      if (name.length > LIMITS.schemaNameLength)
        throw invalid(param, `must have no name of more than ${String(LIMITS.schemaNameLength)} characters`);
      this.#nameCharacters += name.length;
      this.#checkKeyword(name, value, param);
      this.add(value, param);
    }
  }

  #checkKeyword(keyword: string, value: unknown, param: string): void {
    const isText = keyword === '$ref' || keyword === 'pattern';
    if (isText && typeof value === 'string' && value.length > LIMITS.schemaPatternLength)
      throw invalid(param, `must have no ${keyword} of more than ${String(LIMITS.schemaPatternLength)} characters`);
    if (keyword === 'type' && Array.isArray(value) && value.length > MOST_TYPES)
      throw invalid(param, `must have no list of more than ${String(MOST_TYPES)} types`);
  }
}
