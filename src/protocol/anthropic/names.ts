/** Names of Anthropic's fields in errors that a backend makes with our names. */
import { SvcError } from '../errors.ts';
import { renamed } from '../validate.ts';
import type { Place } from './messages.ts';

/** Paths in the caller's request, by our fields. */
export interface Places {
  readonly messages: readonly Place[];
  readonly tools: readonly string[];
  readonly format: string;
}

const FIELDS: readonly (readonly [ours: string, theirs: string])[] = [
  ['reasoning_effort', 'thinking'],
  ['reasoning_budget_tokens', 'thinking.budget_tokens'],
  ['stop', 'stop_sequences'],
  ['parallel_tool_calls', 'tool_choice.disable_parallel_tool_use'],
  ['keep_alive_seconds', 'keep_alive'],
];
/** Ends of paths. */
const ENDS: ReadonlyMap<string, string> = new Map([
  ['.tool_call_id', '.tool_use_id'],
  ['.arguments', '.input'],
]);

/** Renames the field of an error to the caller's. */
export function inTheirNames(error: unknown, places: Places): unknown {
  if (!(error instanceof SvcError) || error.param === undefined) return error;
  return renamed(error, error.param, nameOf(error.param, places));
}

function nameOf(param: string, { messages, tools, format }: Places): string {
  const [message, index = '', list, at = ''] =
    /^messages\[(\d+)\](?:\.(content|tool_calls)\[(\d+)\])?/.exec(param) ?? [];
  const place = messages[Number(index)];
  if (message !== undefined && place !== undefined) {
    const inner = list === undefined ? undefined : (list === 'content' ? place.parts : place.calls)[Number(at)];
    const end = param.slice(message.length);
    return (inner ?? place.message) + (ENDS.get(end) ?? end);
  }
  const [tool, which = ''] = /^tools\[(\d+)\]/.exec(param) ?? [];
  const toolPlace = tools[Number(which)];
  if (tool !== undefined && toolPlace !== undefined) {
    return toolPlace + param.slice(tool.length).replace(/^\.parameters/, '.input_schema');
  }
  for (const [ours, theirs] of [...FIELDS, ['format', format] as const]) {
    if (param === ours || param.startsWith(`${ours}.`)) return theirs + param.slice(ours.length);
  }
  return param;
}
