/** Compiles the schemas of the tools that a chat may call, for the engine. */
import type { NativeTool } from '../../engine/addon.ts';
import { SvcError } from '../../protocol/errors.ts';
import { LIMITS } from '../../protocol/limits.ts';
import type { GenerateRequest, Tool } from '../../protocol/generate.ts';
import { invalid } from '../../protocol/validate.ts';
import { ANY_ARGUMENTS, argumentGrammars } from './schema/arguments.ts';
import { Compiled } from './schema/compiled.ts';
import { ToolSizes } from './schema/tool-sizes.ts';
import type { ToolsBudget } from './schema/work.ts';

type ToolChoice = NonNullable<GenerateRequest['tool_choice']>;

const kept = new Compiled<readonly NativeTool[]>();

/** Throws INVALID_REQUEST, naming the field. */
export function toTools(tools: readonly Tool[], choice: ToolChoice): readonly NativeTool[] {
  return kept.of({ tools, choice }, compiled);
}

function compiled({ tools, choice }: { tools: readonly Tool[]; choice: ToolChoice }): readonly NativeTool[] {
  checkNames(tools);
  const budget: ToolsBudget | null = choice === 'none' ? null : { left: LIMITS.toolsWork };
  const sizes = new ToolSizes();
  if (budget !== null)
    for (const [index, { parameters }] of tools.entries()) sizes.add(parameters, `tools[${String(index)}].parameters`);
  const isForced = ({ name }: Tool): boolean =>
    choice === 'required' || (typeof choice !== 'string' && choice.name === name);
  return tools.map((tool, index) => toTool(tool, index, budget, isForced(tool)));
}

function checkNames(tools: readonly Tool[]): void {
  const seen = new Set<string>();
  for (const [index, { name }] of tools.entries()) {
    const param = `tools[${String(index)}].name`;
    if (seen.has(name)) throw invalid(param, 'is the name of another tool, too');
    if (/[\p{Cc}"\\]/u.test(name)) throw invalid(param, 'must have no control characters, quotes or backslashes');
    seen.add(name);
  }
}

/**
 * `budget`: work that is left for compiling the grammars of all tools; null: no tool may be called. `isForced`:
 * `tool_choice` forces this tool or any tool.
 */
function toTool(tool: Tool, index: number, budget: ToolsBudget | null, isForced: boolean): NativeTool {
  const { name, description = '', parameters, strict } = tool;
  const mustFollow = budget !== null && (isForced || strict === true);
  const param = `tools[${String(index)}].parameters`;
  let grammars = ANY_ARGUMENTS;
  try {
    if (budget !== null && (mustFollow || budget.left > 0))
      grammars = argumentGrammars(parameters, param, `arguments-${String(index)}`, budget, mustFollow);
  } catch (error) {
    // Arguments that need not be valid are any JSON object.
    if (mustFollow || !(error instanceof SvcError)) throw error;
  }
  return { name, description, parameters: JSON.stringify(parameters), ...grammars, strict: mustFollow };
}
