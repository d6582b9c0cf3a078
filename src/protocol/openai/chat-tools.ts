/** Tools of chat completions. The fields of a function stand in `function`, not beside `type` as in the Responses API. */
import * as v from 'valibot';
import { ToolSchema } from '../generate.ts';
import { parse } from '../validate.ts';
import {
  AllowedToolsSchema,
  FunctionToolSchema,
  offered,
  placed,
  ToolsSchema,
  type OfferedTools,
  type ToolChoice,
} from './tools.ts';

const FunctionSchema = v.object({ function: FunctionToolSchema });

const ToolChoiceSchema = v.union([
  v.picklist(['auto', 'none', 'required']),
  v.variant('type', [
    v.object({ type: v.literal('function'), function: v.object({ name: ToolSchema.entries.name }) }),
    v.object({ type: v.literal('allowed_tools'), allowed_tools: AllowedToolsSchema }),
  ]),
]);

/** Entries of a schema. */
export const TOOL_FIELDS = {
  tools: v.exactOptional(ToolsSchema, []),
  tool_choice: v.exactOptional(ToolChoiceSchema),
  parallel_tool_calls: v.exactOptional(v.boolean()),
};
type ToolFields = v.InferOutput<v.ObjectSchema<typeof TOOL_FIELDS, undefined>>;

/** Throws INVALID_REQUEST with `param`. */
export function toolsOf({ tools, tool_choice: choice, parallel_tool_calls }: ToolFields): OfferedTools {
  const ignored = new Set<string>();
  const functions = tools.flatMap((tool, index) => {
    const place = `tools[${String(index)}]`;
    if (tool.type === 'function') return [placed(parse(FunctionSchema, tool, place).function, place)];
    ignored.add(tool.type);
    return [];
  });
  return offered(functions, ignored, { tool_choice: flat(choice), parallel_tool_calls });
}

/** In the form of the Responses API. */
function flat(choice: ToolFields['tool_choice']): ToolChoice | undefined {
  if (choice === undefined || typeof choice === 'string') return choice;
  if (choice.type === 'function') return { type: choice.type, name: choice.function.name };
  const { mode, tools } = choice.allowed_tools;
  return { type: choice.type, mode, tools: tools.map((each) => ({ ...(each['function'] as object), ...each })) };
}
