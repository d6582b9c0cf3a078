/** Bounds of compiling a schema that no single keyword exceeds. */
import { LIMITS } from '../../../protocol/limits.ts';
import { invalid } from '../../../protocol/validate.ts';

/** Returns what `compile` returns. Throws INVALID_REQUEST if the schema is too large, or too deep for the stack. */
export function bounded<Result>(schema: unknown, param: string, compile: () => Result): Result {
  try {
    if (JSON.stringify(schema).length > LIMITS.schemaBytes)
      throw invalid(param, `must be at most ${String(LIMITS.schemaBytes)} bytes of JSON`);
    return compile();
  } catch (error) {
    // V8 has no other mark of a full stack.
    const isStackFull = error instanceof RangeError && error.message === 'Maximum call stack size exceeded';
    throw isStackFull ? invalid(param, 'nests too deep to be compiled') : error;
  }
}
