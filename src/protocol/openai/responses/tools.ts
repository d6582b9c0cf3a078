/**
 * Tools of the Responses API: functions alone and in a namespace, a group of functions under one name, as Codex sends
 * them.
 */
import * as v from 'valibot';
import { ToolSchema } from '../../generate.ts';
import { parse } from '../../validate.ts';
import {
  FunctionToolSchema,
  offered,
  placed,
  ToolChoiceSchema,
  ToolsSchema,
  type OfferedTools,
  type PlacedFunction,
} from '../tools.ts';

const { name } = ToolSchema.entries;

export const NamespaceToolSchema = v.object({ name, description: v.nullish(v.string()), tools: ToolsSchema });

/** The tool fields of a request without nulls. */
export const ToolFieldsSchema = v.object({
  tools: v.exactOptional(ToolsSchema, []),
  tool_choice: v.exactOptional(ToolChoiceSchema),
  parallel_tool_calls: v.exactOptional(v.boolean()),
});
type ToolFields = v.InferOutput<typeof ToolFieldsSchema>;

export interface RequestTools extends OfferedTools {
  /** Functions in namespaces, by the name that the model knows. */
  readonly namespaced: ReadonlyMap<string, { readonly name: string; readonly namespace: string }>;
}

/** Throws INVALID_REQUEST with `param`. */
export function toolsOf({ tools, ...wishes }: ToolFields): RequestTools {
  const ignored = new Set<string>();
  const all = functionsIn(tools, 'tools', null, ignored);
  return {
    ...offered(all, ignored, wishes),
    namespaced: new Map(
      all.flatMap(({ tool, name, namespace }) =>
        namespace === null ? [] : [[tool.name, { name, namespace }] as const],
      ),
    ),
  };
}

function functionsIn(
  tools: ToolFields['tools'],
  outer: string,
  namespace: string | null,
  ignored: Set<string>,
): PlacedFunction[] {
  return tools.flatMap((tool, index) => {
    const place = `${outer}[${String(index)}]`;
    if (tool.type === 'function') return [placed(parse(FunctionToolSchema, tool, place), place, namespace)];
    if (tool.type === 'namespace' && namespace === null) {
      const group = parse(NamespaceToolSchema, tool, place);
      return functionsIn(group.tools, `${place}.tools`, group.name, ignored);
    }
    ignored.add(tool.type);
    return [];
  });
}
