/**
 * Tools of the Responses API. Functions are honoured, alone and in a namespace (a group of functions under one name,
 * as Codex sends them). Tools of other types run on OpenAI's servers or are known to its own models only: clients such
 * as Codex send them always, so they are passed over, and the response lists them in `ignored_tools`.
 */
import * as v from 'valibot';
import { asksForCall, LIMITS, ToolSchema, type GenerateRequest, type Tool } from '../../generate.ts';
import { given } from '../../given.ts';
import { invalid, parse } from '../../validate.ts';

const { name } = ToolSchema.entries;
const ToolTypeSchema = v.looseObject({ type: v.pipe(v.string(), v.maxLength(LIMITS.toolNameLength)) });
const ToolsSchema = v.pipe(v.array(ToolTypeSchema), v.maxLength(LIMITS.tools));

/** A function; unlike in chat completions, its fields stand beside `type`. */
export const FunctionToolSchema = v.object({
  name,
  description: v.nullish(v.string()),
  parameters: v.nullish(v.record(v.string(), v.unknown())),
  strict: v.nullish(v.boolean()),
});

export const NamespaceToolSchema = v.object({ name, description: v.nullish(v.string()), tools: ToolsSchema });

const NamedSchema = v.looseObject({ type: v.literal('function'), name, namespace: v.nullish(name) });

/** `allowed_tools` narrows the tools down without changing the list, which keeps the prompt the same. */
export const ToolChoiceSchema = v.union([
  v.picklist(['auto', 'none', 'required']),
  v.variant('type', [
    NamedSchema,
    v.looseObject({
      type: v.literal('allowed_tools'),
      mode: v.picklist(['auto', 'required']),
      tools: v.pipe(v.array(v.looseObject({})), v.maxLength(LIMITS.tools)),
    }),
  ]),
]);
type ToolChoice = v.InferOutput<typeof ToolChoiceSchema>;

/** The tool fields of a request without nulls. */
export const ToolFieldsSchema = v.object({
  tools: v.exactOptional(ToolsSchema, []),
  tool_choice: v.exactOptional(ToolChoiceSchema),
  parallel_tool_calls: v.exactOptional(v.boolean()),
});
type ToolFields = v.InferOutput<typeof ToolFieldsSchema>;

/** A function as the model knows it, and where it comes from. */
interface PlacedFunction {
  readonly tool: Tool;
  readonly place: string;
  readonly name: string;
  readonly namespace: string | null;
}

export interface RequestTools {
  readonly fields: Pick<GenerateRequest, 'tools' | 'tool_choice' | 'parallel_tool_calls'>;
  /** For each of our tools, its place in the request. */
  readonly places: readonly string[];
  /** Types of the tools that were passed over. */
  readonly ignored: readonly string[];
  /** Functions in namespaces, by the name that the model knows. */
  readonly namespaced: ReadonlyMap<string, { readonly name: string; readonly namespace: string }>;
}

/** Name of a function for the model, which knows no namespaces. null: the function is in none. */
export function flatName(namespace: string | null, name: string): string {
  if (namespace === null) return name;
  return namespace.endsWith('__') ? namespace + name : `${namespace}__${name}`;
}

/** Throws INVALID_REQUEST with `param`. */
export function toolsOf({ tools, tool_choice: choice, parallel_tool_calls }: ToolFields): RequestTools {
  const ignored = new Set<string>();
  const all = functionsIn(tools, 'tools', null, ignored);
  const chosen = allowed(all, choice);
  const facts = {
    places: chosen.map(({ place }) => place),
    ignored: [...ignored],
    namespaced: new Map(
      all.flatMap(({ tool, name, namespace }) =>
        namespace === null ? [] : [[tool.name, { name, namespace }] as const],
      ),
    ),
  };
  if (chosen.length > LIMITS.tools) throw invalid('tools', `must have at most ${String(LIMITS.tools)} functions`);
  if (chosen.length === 0) {
    if (asksForCall(modeOf(choice))) throw invalid('tool_choice', 'requires a tool of type function');
    return { fields: {}, ...facts };
  }
  return {
    fields: {
      tools: chosen.map(({ tool }) => tool),
      ...given({ tool_choice: choiceOf(choice, chosen), parallel_tool_calls }),
    },
    ...facts,
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
    if (tool.type === 'function') return [functionIn(tool, place, namespace)];
    if (tool.type === 'namespace' && namespace === null) {
      const group = parse(NamespaceToolSchema, tool, place);
      return functionsIn(group.tools, `${place}.tools`, group.name, ignored);
    }
    ignored.add(tool.type);
    return [];
  });
}

function functionIn(tool: object, place: string, namespace: string | null): PlacedFunction {
  const { name: own, description: text, parameters, strict: isStrict } = parse(FunctionToolSchema, tool, place);
  const flat = flatName(namespace, own);
  if (flat.length > LIMITS.toolNameLength) {
    throw invalid(`${place}.name`, `has, with its namespace, more than ${String(LIMITS.toolNameLength)} characters`);
  }
  const known = {
    name: flat,
    parameters: parameters ?? {},
    ...given({ description: text ?? undefined, strict: isStrict ?? undefined }),
  };
  return { tool: known, place, name: own, namespace };
}

function allowed(all: readonly PlacedFunction[], choice: ToolChoice | undefined): readonly PlacedFunction[] {
  if (typeof choice !== 'object' || choice.type !== 'allowed_tools') return all;
  const names = new Set(
    choice.tools.flatMap((each) => {
      const result = v.safeParse(NamedSchema, each);
      return result.success ? [flatName(result.output.namespace ?? null, result.output.name)] : [];
    }),
  );
  return all.filter(({ tool }) => names.has(tool.name));
}

function modeOf(choice: ToolChoice | undefined): unknown {
  return typeof choice === 'object' && choice.type === 'allowed_tools' ? choice.mode : choice;
}

function choiceOf(choice: ToolChoice | undefined, tools: readonly PlacedFunction[]): GenerateRequest['tool_choice'] {
  if (choice === undefined || typeof choice === 'string') return choice;
  if (choice.type === 'allowed_tools') return choice.mode;
  const { name: own, namespace = null } = choice;
  const flat = flatName(namespace, own);
  // Clients may leave out the namespace where the name is unique.
  const named = tools.find(({ tool }) => tool.name === flat) ?? tools.find((each) => each.name === own);
  if (named === undefined) throw invalid('tool_choice.name', 'must be the name of one of the tools');
  return { name: named.tool.name };
}
