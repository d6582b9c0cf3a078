/**
 * `--tools FILE`: tools as OpenAI's API has them (`[{"type": "function", "function": {…}}]`), or their functions alone.
 */
import * as v from 'valibot';
import { ToolSchema, type GenerateRequest, type Tool } from '../../protocol/generate.ts';
import { LIMITS } from '../../protocol/limits.ts';
import { parse } from '../../protocol/validate.ts';
import { readJsonFile } from './json-file.ts';

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
const HINT = 'a list of tools: [{"name": "…", "description": "…", "parameters": {a JSON Schema}}]';

/** Throws INPUT_INVALID with the place in the file. */
export async function readTools(file: string): Promise<Tool[]> {
  return await readJsonFile(file, HINT, (tools) => parse(FileSchema, { tools }).tools);
}

/** `--tool-choice`: every word that is not such a choice is the name of a tool. */
export function toolChoiceOf(typed: string): NonNullable<GenerateRequest['tool_choice']> {
  return typed === 'auto' || typed === 'none' || typed === 'required' ? typed : { name: typed };
}
