/**
 * Items of a conversation that began at OpenAI, of types that svc's answers do not have. Calls that the client answers
 * become calls of functions, and their results results of functions. What OpenAI ran itself is left out, as its tools
 * are (../tools.ts); the response lists the types in `ignored_items`.
 */
type Item = Readonly<Record<string, unknown>>;

const IGNORED: ReadonlySet<unknown> = new Set([
  'code_interpreter_call',
  'compaction',
  'computer_call',
  'computer_call_output',
  'file_search_call',
  'image_generation_call',
  'mcp_approval_request',
  'mcp_approval_response',
  'mcp_call',
  'mcp_list_tools',
  'web_search_call',
]);

/** Name and arguments of the function, by the type of the call. */
const CALLS = new Map<unknown, (call: Item) => readonly [name: unknown, args: unknown]>([
  ['apply_patch_call', ({ operation }) => ['apply_patch', operation]],
  ['custom_tool_call', ({ name, input }) => [name, { input }]],
  ['local_shell_call', ({ action }) => ['local_shell', action]],
  ['shell_call', ({ action }) => ['shell', action]],
]);

/** Output of the function, by the type of the result. */
const RESULTS = new Map<unknown, (result: Item) => unknown>([
  ['apply_patch_call_output', ({ output, status }) => output ?? status],
  ['custom_tool_call_output', ({ output }) => output],
  ['local_shell_call_output', ({ output }) => output],
  ['shell_call_output', ({ output }) => JSON.stringify(output)],
]);

/** Types of the items that are left out, each once. */
export function ignoredTypes(input: string | readonly object[]): string[] {
  if (typeof input === 'string') return [];
  return [...new Set(input.filter(isIgnored).map((item) => (item as { type: string }).type))];
}

export function isIgnored(item: object): boolean {
  return IGNORED.has((item as Item)['type']);
}

/** The call or result of a function that an item becomes; others are unchanged. */
export function asFunction(item: object): object {
  const { type, id, call_id, namespace, ...rest } = item as Item;
  const call = CALLS.get(type);
  if (call !== undefined) {
    const [name, args] = call(rest);
    return { type: 'function_call', id, call_id, name, namespace, arguments: JSON.stringify(args ?? {}) };
  }
  const result = RESULTS.get(type);
  // The `id` of a local shell's result is that of the call.
  return result === undefined ? item : { type: 'function_call_output', call_id: call_id ?? id, output: result(rest) };
}
