/** Converts the tools of Anthropic's API to ours. */
import * as v from 'valibot';
import { asksForCall, LIMITS, ToolSchema, type GenerateRequest, type Tool } from '../generate.ts';
import { given } from '../given.ts';
import { invalid, parse } from '../validate.ts';

const { name, parameters } = ToolSchema.entries;
const toolType = v.pipe(v.string(), v.maxLength(LIMITS.toolNameLength));
const parallel = { disable_parallel_tool_use: v.nullish(v.boolean(), false) };

/** A tool that the client defines. */
export const CustomToolSchema = v.object({
  name,
  description: v.nullish(v.string()),
  input_schema: parameters.wrapped,
  strict: v.nullish(v.boolean()),
  /** The tool is offered only once a result refers to it. */
  defer_loading: v.nullish(v.boolean()),
});

/** Fields of a request about tools; each tool that the client defines is parsed apart. */
export const ToolFieldsSchema = v.object({
  tools: v.exactOptional(v.pipe(v.array(v.looseObject({ type: v.nullish(toolType) })), v.maxLength(LIMITS.tools)), []),
  tool_choice: v.exactOptional(
    v.variant('type', [
      v.object({ type: v.literal('auto'), ...parallel }),
      v.object({ type: v.literal('any'), ...parallel }),
      v.object({ type: v.literal('tool'), name, ...parallel }),
      v.object({ type: v.literal('none') }),
    ]),
  ),
});
type ToolFields = v.InferOutput<typeof ToolFieldsSchema>;

export interface OfferedTools {
  readonly fields: Pick<GenerateRequest, 'tools' | 'tool_choice' | 'parallel_tool_calls'>;
  /** Path of each tool in the caller's request. */
  readonly places: readonly string[];
}

/**
 * Skips tools of other types than `custom`: Anthropic runs them, or only its models know their schema, and clients
 * offer them to every model. A request with no other tools (Claude Code's web search is one) is refused, because a
 * model would make up the results. `loaded`: names of the deferred tools that results refer to. Other deferred tools
 * are skipped, too, unless the request has Anthropic's tool search, which svc lacks: then all are offered. Throws
 * INVALID_REQUEST.
 */
export function toTools({ tools, tool_choice: choice }: ToolFields, loaded: ReadonlySet<string>): OfferedTools {
  const isFoundByServer = tools.some(({ type }) => type?.startsWith('tool_search_tool') === true);
  const forced = choice?.type === 'tool' ? choice.name : undefined;
  const places: string[] = [];
  const offered: Tool[] = [];
  for (const [index, tool] of tools.entries()) {
    if (isForeign(tool)) continue;
    const place = `tools[${String(index)}]`;
    const custom = parse(CustomToolSchema, tool, place);
    const isLoaded = custom.defer_loading !== true || loaded.has(custom.name) || custom.name === forced;
    if (!isLoaded && !isFoundByServer) continue;
    places.push(place);
    offered.push(toTool(custom));
  }
  const tool_choice = toChoice(choice);
  if (offered.length === 0) {
    if (tool_choice !== 'none') refuseForeign(tools);
    if (asksForCall(tool_choice)) throw invalid('tool_choice', 'requires tools of the type custom');
    return { fields: {}, places };
  }
  const isSingle = choice !== undefined && choice.type !== 'none' && choice.disable_parallel_tool_use;
  return {
    fields: { tools: offered, ...given({ tool_choice, parallel_tool_calls: isSingle ? false : undefined }) },
    places,
  };
}

function refuseForeign(tools: ToolFields['tools']): void {
  const index = tools.findIndex(isForeign);
  if (index === -1) return;
  // Other texts are not repeated: they may be anything.
  const type = /^[a-z_]{1,64}_\d{8}$/.exec(tools[index]?.type ?? '')?.[0];
  const what =
    type === undefined
      ? 'names a tool that svc does not provide'
      : `is ${type}, a tool that svc does not provide (no web search, no code execution)`;
  throw invalid(`tools[${String(index)}].type`, `${what}: offer tools with an input_schema`);
}

function isForeign({ type }: ToolFields['tools'][number]): boolean {
  return typeof type === 'string' && type !== 'custom';
}

function toTool({ name, description, input_schema, strict }: v.InferOutput<typeof CustomToolSchema>): Tool {
  return {
    name,
    parameters: input_schema,
    ...given({ description: description ?? undefined, strict: strict ?? undefined }),
  };
}

function toChoice(choice: ToolFields['tool_choice']): GenerateRequest['tool_choice'] {
  if (choice === undefined) return undefined;
  switch (choice.type) {
    case 'any':
      return 'required';
    case 'tool':
      return { name: choice.name };
    default:
      return choice.type;
  }
}
