/** Items of the input of OpenAI's Responses. */
import { honoured, ignored, refused, type Field } from './declare.ts';

type Item = Readonly<Record<string, unknown>>;
type Context = Readonly<Record<string, unknown>>;

export const ITEM = 'input[]';
const PART = `${ITEM}.content[]`;
const OUTPUT = `${ITEM}.output[]`;
export const CACHE = 'every prompt is cached automatically';
const PNG = 'data:image/png;base64,iVBORw0KGgo=';

const alone = (item: Item): Context => ({ input: [item] });
const message = (part: Item, role = 'user'): Context => alone({ type: 'message', role, content: [part] });
const TEXT = { type: 'input_text', text: 'hi' };
const IMAGE = { type: 'input_image', image_url: PNG };
const ANSWER = { type: 'output_text', text: 'a' };
const USER = { type: 'message', role: 'user', content: 'hi' };
const CALL = { type: 'function_call', call_id: 'c1', name: 'f', arguments: '{}' };
const RESULT = { type: 'function_call_output', call_id: 'c1', output: [TEXT] };
/** Belongs to the message or call after it. */
const THOUGHT = { type: 'reasoning', summary: [{ type: 'summary_text', text: 'so' }] };
const result = (part: Item): Context => alone({ ...RESULT, output: [part] });

const AT = 'messages[0].content';
const CALLED = 'messages[0].tool_calls';

const REFUSED: readonly string[] = [
  'tool_search_call',
  'tool_search_output',
  'additional_tools',
  'compaction_trigger',
  'program',
  'program_output',
];
const REFUSED_FIELDS: readonly string[] = ['execution', 'tools', 'fingerprint'];

const IGNORED: readonly string[] = [
  'file_search_call',
  'computer_call',
  'computer_call_output',
  'web_search_call',
  'compaction',
  'image_generation_call',
  'code_interpreter_call',
  'mcp_list_tools',
  'mcp_approval_request',
  'mcp_approval_response',
  'mcp_call',
];
const IGNORED_FIELDS: readonly string[] = [
  'queries',
  'results',
  'pending_safety_checks',
  'actions',
  'acknowledged_safety_checks',
  'result',
  'code',
  'container_id',
  'outputs',
  'server_label',
  'error',
  'approval_request_id',
  'approve',
  'reason',
];
const OF_OPENAI = 'only OpenAI can read or run such items; the response lists their types in `ignored_items`';

const SHELL = { type: 'shell_call', call_id: 'c1', action: { commands: ['ls'] } };
const PATCH = { type: 'apply_patch_call', call_id: 'c1', operation: { type: 'delete_file', path: 'a' } };
const CUSTOM = { type: 'custom_tool_call', call_id: 'c1', name: 'f', input: 'x' };
const CALLS_OF_CLIENTS: readonly Item[] = [SHELL, { ...SHELL, type: 'local_shell_call' }, PATCH, CUSTOM];
const RESULTS_OF_CLIENTS = ['shell', 'local_shell', 'apply_patch', 'custom_tool'].map((tool) => ({
  type: `${tool}_call_output`,
  call_id: 'c1',
  output: 'x',
}));
const SHOWN = { type: 'shell_call_output', call_id: 'c1', output: [{}] };

const KINDS_OF_ITEMS: readonly Field[] = [
  honoured(`${ITEM}.type = message`, AT, { ...USER, content: 'other' }),
  honoured(`${ITEM}.type = function_call`, CALLED, CALL),
  honoured(`${ITEM}.type = function_call_output`, 'messages[0].tool_call_id', RESULT),
  {
    ...honoured(`${ITEM}.type = reasoning`, 'messages[0].reasoning', null, alone(CALL)),
    sent: { input: [THOUGHT, CALL] },
  },
  honoured(`${ITEM}.type = item_reference`, AT, { type: 'item_reference', id: 'msg_STORED_in0' }),
  ...CALLS_OF_CLIENTS.map((call) => honoured(`${ITEM}.type = ${String(call['type'])}`, CALLED, call)),
  ...RESULTS_OF_CLIENTS.map((each) => honoured(`${ITEM}.type = ${each.type}`, 'messages[0].tool_call_id', each)),
  ...IGNORED.map((type) => ({
    ...ignored(`${ITEM}.type = ${type}`, OF_OPENAI, null, alone(USER)),
    sent: { input: [USER, { type }] },
  })),
  ...REFUSED.map((type) => refused(`${ITEM}.type = ${type}`, { type }, alone(USER))),
];

const PARTS_OF_MESSAGES: readonly Field[] = [
  honoured(`${PART}.type = input_text`, AT, { type: 'input_text', text: 'other' }, message(TEXT)),
  honoured(`${PART}.type = input_image`, AT, IMAGE, message(TEXT)),
  refused(`${PART}.type = input_file`, { type: 'input_file', file_id: 'file-1' }, message(TEXT)),
  honoured(`${PART}.type = output_text`, AT, { type: 'output_text', text: 'b' }, message(ANSWER, 'assistant')),
  honoured(`${PART}.type = refusal`, AT, { type: 'refusal', refusal: 'No.' }, message(ANSWER, 'assistant')),
  {
    ...honoured(`${PART}.type = reasoning_text`, 'messages[0].reasoning', null, { input: [THOUGHT, CALL] }),
    sent: { input: [{ ...THOUGHT, content: [{ type: 'reasoning_text', text: 'other' }] }, CALL] },
  },
  honoured(`${PART}.text`, AT, 'other', message(TEXT)),
  honoured(`${PART}.image_url`, AT, `${PNG.slice(0, -1)}A`, message(IMAGE)),
  honoured(`${PART}.refusal`, AT, 'Never.', message({ type: 'refusal', refusal: 'No.' }, 'assistant')),
  ignored(`${PART}.detail`, 'a model sees every picture in its own resolution', 'low', message(IMAGE)),
  ignored(`${PART}.prompt_cache_breakpoint`, CACHE, { mode: 'explicit' }, message(TEXT)),
  ignored(`${PART}.annotations`, 'models read the text alone', [], message(ANSWER, 'assistant')),
  ignored(`${PART}.logprobs`, 'models read the text alone', [], message(ANSWER, 'assistant')),
  refused(`${PART}.file_id`, 'file-1', message({ type: 'input_image' })),
  ...['file_data', 'file_url', 'filename'].map((name) =>
    refused(`${PART}.${name}`, 'x', message({ type: 'input_file' }), `${PART}.type`),
  ),
];

const PARTS_OF_RESULTS: readonly Field[] = [
  honoured(`${OUTPUT}.type = input_text`, AT, { type: 'input_text', text: 'other' }, result(TEXT)),
  honoured(`${OUTPUT}.type = input_image`, AT, IMAGE, result(TEXT)),
  refused(`${OUTPUT}.type = input_file`, { type: 'input_file', file_id: 'file-1' }, result(TEXT)),
  honoured(`${OUTPUT}.text`, AT, 'other', result(TEXT)),
  honoured(`${OUTPUT}.image_url`, AT, `${PNG.slice(0, -1)}A`, result(IMAGE)),
  ignored(`${OUTPUT}.detail`, 'a model sees every picture in its own resolution', 'low', result(IMAGE)),
  ignored(`${OUTPUT}.prompt_cache_breakpoint`, CACHE, { mode: 'explicit' }, result(TEXT)),
  refused(`${OUTPUT}.file_id`, 'file-1', result({ type: 'input_image' })),
  ...['file_data', 'file_url', 'filename'].map((name) =>
    refused(`${OUTPUT}.${name}`, 'x', result({ type: 'input_file' }), `${OUTPUT}.type`),
  ),
  ...['outcome', 'stderr', 'stdout'].map((name) => honoured(`${OUTPUT}.${name}`, AT, 'x', alone(SHOWN))),
];

export const INPUT: readonly Field[] = [
  honoured('input', 'messages', 'other'),
  ...KINDS_OF_ITEMS,
  honoured(
    `${ITEM}.role = user`,
    'messages[0].role',
    { role: 'user', content: 'hi' },
    alone({ ...USER, role: 'system' }),
  ),
  ...['assistant', 'system', 'developer'].map((role) =>
    honoured(`${ITEM}.role = ${role}`, 'messages[0].role', { role, content: 'hi' }),
  ),
  honoured(`${ITEM}.content`, AT, 'other', alone(USER)),
  ...PARTS_OF_MESSAGES,
  honoured(`${ITEM}.call_id`, `${CALLED}[0].id`, 'c2', alone(CALL)),
  honoured(`${ITEM}.name`, `${CALLED}[0].name`, 'g', alone(CALL)),
  honoured(`${ITEM}.namespace`, `${CALLED}[0].name`, 'group', alone(CALL)),
  honoured(`${ITEM}.arguments`, `${CALLED}[0].arguments`, '{"a":1}', alone(CALL)),
  honoured(`${ITEM}.output`, AT, 'other', alone(RESULT)),
  ...PARTS_OF_RESULTS,
  {
    ...honoured(`${ITEM}.summary`, 'messages[0].reasoning', null, { input: [THOUGHT, CALL] }),
    sent: { input: [{ ...THOUGHT, summary: [{ type: 'summary_text', text: 'other' }] }, CALL] },
  },
  {
    ...honoured(`${ITEM}.summary[].text`, 'messages[0].reasoning', null, { input: [THOUGHT, CALL] }),
    sent: { input: [{ ...THOUGHT, summary: [{ type: 'summary_text', text: 'other' }] }, CALL] },
  },
  ignored(`${ITEM}.summary[].type`, 'there is one type', 'summary_text', { input: [USER, THOUGHT] }),
  {
    ...honoured(`${ITEM}.encrypted_content`, 'messages[0].reasoning', null, { input: [THOUGHT, CALL] }),
    sent: { input: [{ ...THOUGHT, summary: [], encrypted_content: 'svc:b3RoZXI=' }, CALL] },
  },
  ignored(`${ITEM}.id`, 'models read no ids; the list of input items repeats it', 'msg_1', alone(USER)),
  ignored(`${ITEM}.status`, 'the status of an item is not used', 'completed', alone(USER)),
  ignored(`${ITEM}.phase`, 'chat templates have no phases', 'commentary', alone({ ...USER, role: 'assistant' })),
  ignored(`${ITEM}.caller`, 'only the model calls tools here', { type: 'direct' }, alone(CALL)),
  honoured(`${ITEM}.action`, CALLED, { commands: ['pwd'] }, alone(SHELL)),
  honoured(`${ITEM}.operation`, CALLED, { type: 'delete_file', path: 'b' }, alone(PATCH)),
  honoured(`${ITEM}.input`, CALLED, 'y', alone(CUSTOM)),
  ignored(`${ITEM}.environment`, 'models read the commands alone', { type: 'local' }, alone(SHELL)),
  ignored(`${ITEM}.max_output_length`, 'a result is given to the model as it is', 10, alone(SHOWN)),
  ...IGNORED_FIELDS.map((name) =>
    ignored(`${ITEM}.${name}`, OF_OPENAI, 'x', { input: [USER, { type: 'file_search_call' }] }),
  ),
  ...REFUSED_FIELDS.map((name) => refused(`${ITEM}.${name}`, 'x', alone({ type: 'program' }), `${ITEM}.type`)),
];

export const INPUT_PARTS: readonly string[] = [ITEM, PART, OUTPUT, `${ITEM}.summary[]`];
export const INPUT_KINDS: readonly string[] = [`${ITEM}.type`, `${ITEM}.role`, `${PART}.type`, `${OUTPUT}.type`];
/** Calls and results of tools that svc does not have. */
export const INPUT_OPAQUE: readonly string[] = ['output', 'output[].outcome', 'action', 'operation'].map(
  (name) => `${ITEM}.${name}`,
);
