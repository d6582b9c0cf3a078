/**
 * Strings with a `pattern` or `format`. Beside a pattern, `format` is an annotation, as JSON Schema has it, and so is
 * one that is not known here.
 */
import { LIMITS } from '../../../protocol/limits.ts';
import { formatText } from './formats.ts';
import type { Json, JsonObject } from './keywords.ts';
import type { LeaveOut } from './leave-out.ts';
import { UNQUOTED, type Notation } from './notation.ts';
import { patternToGbnf } from './pattern.ts';
import { lengthsOf } from './text-lengths.ts';

/**
 * GBNF for the text between the quotes, of `min` to `max` characters; null: any, or left out, also because some text of
 * the pattern or format has another length. `path`: path of the schema.
 */
export function textOf(
  schema: JsonObject,
  [min, max]: readonly [min: number, max: number],
  notation: Notation,
  path: string,
  leaveOut: LeaveOut,
): string | null {
  const { pattern, format } = schema;
  const written = (how: Notation): string | null =>
    (pattern === undefined ? null : ofPattern(pattern, path, how, leaveOut)) ?? formatText(format, max);
  const text = written(notation);
  if (text === null || (min === 0 && max === Infinity)) return text;
  const [fewest, most] = lengthsOf(written(UNQUOTED) ?? '""');
  const word = pattern === undefined ? 'format' : 'pattern';
  if (fewest < min) leaveOut(`${path}.minLength`, `cannot be enforced: the ${word} allows shorter texts`);
  if (most > max) leaveOut(`${path}.maxLength`, `cannot be enforced: the ${word} allows longer texts`);
  return fewest < min || most > max ? null : text;
}

function ofPattern(pattern: Json, path: string, notation: Notation, leaveOut: LeaveOut): string | null {
  const place = `${path}.pattern`;
  if (typeof pattern === 'string' && pattern.length <= LIMITS.schemaPatternLength)
    return patternToGbnf(pattern, place, notation, leaveOut);
  const length = String(LIMITS.schemaPatternLength);
  leaveOut(
    place,
    typeof pattern === 'string' ? `must have a length of at most ${length}` : 'must be a regular expression',
  );
  return null;
}
