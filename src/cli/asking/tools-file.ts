/** `--tools FILE`: tools as OpenAI's API has them (`[{"type": "function", "function": {…}}]`), or their functions alone. */
import * as v from 'valibot';
import { SvcError } from '../../protocol/errors.ts';
import { ToolSchema, type Tool } from '../../protocol/generate.ts';
import { LIMITS } from '../../protocol/limits.ts';
import { parse } from '../../protocol/validate.ts';
import { readTextFile } from './text-file.ts';

const FileSchema = v.object({
  tools: v.pipe(
    v.array(
      v.union([
        ToolSchema,
        v.pipe(
          v.object({ type: v.literal('function'), function: ToolSchema }),
          v.transform((tool) => tool.function),
        ),
      ]),
    ),
    v.minLength(1),
    v.maxLength(LIMITS.tools),
  ),
});

/** Throws INPUT_INVALID with the place in the file. */
export function readTools(file: string): Tool[] {
  const source = readTextFile(file, LIMITS.bodyBytes);
  try {
    return parse(FileSchema, { tools: JSON.parse(source) as unknown }).tools;
  } catch (error) {
    const why = error instanceof SvcError ? error.message : `not valid JSON: ${(error as Error).message}`;
    throw new SvcError('INPUT_INVALID', `${file}: ${why}`, {
      hint: 'a list of tools: [{"name": "…", "description": "…", "parameters": {a JSON Schema}}]',
    });
  }
}
