/**
 * What the tools of OpenAI's chat completions (chat-tools.ts) and responses (responses/tools.ts) have in common.
 * Functions are honoured. Tools of other types run on OpenAI's servers or are known to its own models only: clients such
 * as Codex send them always, so they are passed over, and the response lists their types in `ignored_tools`.
 */
import * as v from 'valibot';
import { asksForCall, LIMITS, ToolSchema, type GenerateRequest, type Tool } from '../generate.ts';
import { given } from '../given.ts';
import { invalid } from '../validate.ts';

const { name } = ToolSchema.entries;
const ToolTypeSchema = v.looseObject({ type: v.pipe(v.string(), v.maxLength(LIMITS.toolNameLength)) });
export const ToolsSchema = v.pipe(v.array(ToolTypeSchema), v.maxLength(LIMITS.tools));

/** The fields of a function. null means absent: it is what Python's clients send of a tool without a description. */
export const FunctionToolSchema = v.object({
  name,
  description: v.nullish(v.string()),
  parameters: v.nullish(v.record(v.string(), v.unknown())),
  strict: v.nullish(v.boolean()),
});

const NamedSchema = v.looseObject({ type: v.literal('function'), name, namespace: v.nullish(name) });

/** `allowed_tools` narrows the tools down without changing the list, which keeps the prompt the same. */
export const AllowedToolsSchema = v.looseObject({
  mode: v.picklist(['auto', 'required']),
  tools: v.pipe(v.array(v.looseObject({})), v.maxLength(LIMITS.tools)),
});

/** In the form of the Responses API. */
export const ToolChoiceSchema = v.union([
  v.picklist(['auto', 'none', 'required']),
  v.variant('type', [NamedSchema, v.looseObject({ type: v.literal('allowed_tools'), ...AllowedToolsSchema.entries })]),
]);
export type ToolChoice = v.InferOutput<typeof ToolChoiceSchema>;

/** A function as the model knows it, and where it comes from. */
export interface PlacedFunction {
  readonly tool: Tool;
  readonly place: string;
  readonly name: string;
  readonly namespace: string | null;
}

export interface OfferedTools {
  readonly fields: Pick<GenerateRequest, 'tools' | 'tool_choice' | 'parallel_tool_calls'>;
  /** For each of our tools, its place in the request. */
  readonly places: readonly string[];
  /** Types of the tools that were passed over. */
  readonly ignored: readonly string[];
}

interface Wishes {
  readonly tool_choice?: ToolChoice | undefined;
  readonly parallel_tool_calls?: boolean | undefined;
}

/** Name of a function for the model, which knows no namespaces. null: the function is in none. */
export function flatName(namespace: string | null, name: string): string {
  if (namespace === null) return name;
  return namespace.endsWith('__') ? namespace + name : `${namespace}__${name}`;
}

/** Throws INVALID_REQUEST with `param`. */
export function placed(
  { name: own, description: text, parameters, strict: isStrict }: v.InferOutput<typeof FunctionToolSchema>,
  place: string,
  namespace: string | null = null,
): PlacedFunction {
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

/**
 * Offers those functions of a request that its choice allows. `ignored`: types of its other tools. Throws
 * INVALID_REQUEST with `param`.
 */
export function offered(
  functions: readonly PlacedFunction[],
  ignored: ReadonlySet<string>,
  { tool_choice: choice, parallel_tool_calls }: Wishes,
): OfferedTools {
  const chosen = allowed(functions, choice);
  const facts = { places: chosen.map(({ place }) => place), ignored: [...ignored] };
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
  if (named === undefined) throw invalid('tool_choice', 'must name one of the tools of type function');
  return { name: named.tool.name };
}

/** Field of a response. Absent: no tool was passed over. */
export function ignoredField(types: readonly string[]): { readonly ignored_tools?: readonly string[] } {
  return types.length === 0 ? {} : { ignored_tools: types };
}
