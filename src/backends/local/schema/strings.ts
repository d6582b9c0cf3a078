/**
 * Strings with a `pattern` or `format`. Beside a pattern, `format` is an annotation, as JSON Schema has it, and so is
 * one that is not known here.
 */
import { LIMITS } from '../../../protocol/limits.ts';
import { invalid } from '../../../protocol/validate.ts';
import { formatText } from './formats.ts';
import type { Json, JsonObject } from './keywords.ts';
import { UNQUOTED, type Notation } from './notation.ts';
import { patternToGbnf } from './pattern.ts';
import { lengthsOf } from './text-lengths.ts';

/**
 * GBNF for the text between the quotes, of `min` to `max` characters; null: any. Throws INVALID_REQUEST, also if some
 * text of the pattern or format has another length. `path`: path of the schema.
 */
export function textOf(schema: JsonObject, min: number, max: number, notation: Notation, path: string): string | null {
  const { pattern, format } = schema;
  const known = formatText(format, max);
  if (pattern === undefined && known === null) return null;
  const written = (how: Notation): string => (pattern === undefined ? (known ?? '') : ofPattern(pattern, path, how));
  const text = written(notation);
  if (min === 0 && max === Infinity) return text;
  const [fewest, most] = lengthsOf(written(UNQUOTED));
  const word = pattern === undefined ? 'format' : 'pattern';
  if (fewest < min) throw invalid(`${path}.minLength`, `cannot be enforced: the ${word} allows shorter texts`);
  if (most > max) throw invalid(`${path}.maxLength`, `cannot be enforced: the ${word} allows longer texts`);
  return text;
}

function ofPattern(pattern: Json, path: string, notation: Notation): string {
  const place = `${path}.pattern`;
  if (typeof pattern !== 'string') throw invalid(place, 'must be a regular expression');
  if (pattern.length > LIMITS.schemaPatternLength)
    throw invalid(place, `must have a length of at most ${String(LIMITS.schemaPatternLength)}`);
  return patternToGbnf(pattern, place, notation);
}
