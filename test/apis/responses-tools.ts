/** Tools of OpenAI's Responses. */
import { honoured, ignored, refused, type Field } from './declare.ts';

const FUNCTION = { type: 'function', name: 'f' };
const TOOLS = { tools: [FUNCTION] };
const BOTH = { tools: [FUNCTION, { ...FUNCTION, name: 'g' }] };
const GROUP = { type: 'namespace', name: 'group', tools: [FUNCTION] };
const GROUPS = { tools: [GROUP] };
const SERVER =
  'OpenAI runs such tools, or its models know them without a schema; the response lists them in `ignored_tools`';
const SEARCH = { tools: [{ type: 'web_search' }] };
const DIRECT = 'only the model calls tools here';
const AT_ONCE = 'every tool is offered at once';
const UNCHECKED = 'results of tools are read as they are';

const SERVER_TOOLS: readonly string[] = [
  'file_search',
  'computer',
  'computer_use_preview',
  'web_search',
  'web_search_2025_08_26',
  'mcp',
  'code_interpreter',
  'programmatic_tool_calling',
  'image_generation',
  'local_shell',
  'shell',
  'custom',
  'tool_search',
  'web_search_preview',
  'web_search_preview_2025_03_11',
  'apply_patch',
];

const SERVER_FIELDS: readonly string[] = [
  'vector_store_ids',
  'filters',
  'max_num_results',
  'ranking_options',
  'display_height',
  'display_width',
  'environment',
  'search_context_size',
  'user_location',
  'server_label',
  'allowed_tools',
  'authorization',
  'connector_id',
  'headers',
  'require_approval',
  'server_description',
  'server_url',
  'tunnel_id',
  'container',
  'action',
  'background',
  'input_fidelity',
  'input_image_mask',
  'model',
  'moderation',
  'output_compression',
  'output_format',
  'partial_images',
  'quality',
  'size',
  'format',
  'execution',
  'search_content_types',
];

const SERVER_CHOICES: readonly string[] = [
  'file_search',
  'web_search_preview',
  'computer',
  'computer_use_preview',
  'computer_use',
  'web_search_preview_2025_03_11',
  'image_generation',
  'code_interpreter',
  'mcp',
  'custom',
  'programmatic_tool_calling',
  'apply_patch',
  'shell',
];

/** `path`: of the list; `context`: a request with one function in it. */
function functionFields(path: string, context: Readonly<Record<string, unknown>>): Field[] {
  return [
    honoured(`${path}.name`, 'tools[0].name', 'g', context),
    honoured(`${path}.description`, 'tools[0].description', 'adds', context),
    honoured(`${path}.parameters`, 'tools[0].parameters', { type: 'object' }, context),
    honoured(`${path}.strict`, 'tools[0].strict', true, context),
    ignored(`${path}.allowed_callers`, DIRECT, ['direct'], context),
    ignored(`${path}.defer_loading`, AT_ONCE, true, context),
    ignored(`${path}.output_schema`, UNCHECKED, {}, context),
  ];
}

const ALLOWED = { type: 'allowed_tools', mode: 'auto', tools: [{ type: 'function', name: 'g' }] };

export const TOOL_FIELDS: readonly Field[] = [
  honoured('tools', 'tools', [FUNCTION]),
  honoured('tools[].type = function', 'tools', FUNCTION),
  honoured('tools[].type = namespace', 'tools', GROUP),
  ...SERVER_TOOLS.map((type) => ignored(`tools[].type = ${type}`, SERVER, { type, name: 'x' })),
  ...functionFields('tools[]', TOOLS),
  honoured('tools[].tools', 'tools[0].name', [{ ...FUNCTION, name: 'g' }], GROUPS),
  honoured('tools[].tools[].type = function', 'tools[0].name', { ...FUNCTION, name: 'g' }, GROUPS),
  ignored(
    'tools[].tools[].type = custom',
    SERVER,
    { type: 'custom', name: 'x' },
    {
      tools: [{ ...GROUP, tools: [] }],
    },
  ),
  ...functionFields('tools[].tools[]', GROUPS),
  ignored('tools[].tools[].format', SERVER, { type: 'text' }, { tools: [{ ...GROUP, tools: [{ type: 'custom' }] }] }),
  ...SERVER_FIELDS.map((name) => ignored(`tools[].${name}`, SERVER, 'x', SEARCH)),
  honoured('tool_choice', 'tool_choice', 'required', TOOLS),
  honoured('tool_choice.type = function', 'tool_choice', FUNCTION, TOOLS),
  honoured('tool_choice.type = allowed_tools', 'tools', ALLOWED, BOTH),
  ...SERVER_CHOICES.map((type) =>
    refused(`tool_choice.type = ${type}`, { type, name: 'x', server_label: 'x' }, TOOLS, 'tool_choice'),
  ),
  honoured('tool_choice.name', 'tool_choice.name', 'g', { ...BOTH, tool_choice: FUNCTION }),
  honoured('tool_choice.mode', 'tool_choice', 'required', { ...BOTH, tool_choice: ALLOWED }),
  honoured('tool_choice.tools', 'tools', [FUNCTION], { ...BOTH, tool_choice: ALLOWED }),
  refused('tool_choice.server_label', 'x', { ...TOOLS, tool_choice: { type: 'mcp' } }, 'tool_choice'),
  honoured('parallel_tool_calls', 'parallel_tool_calls', false, TOOLS),
];

export const TOOL_PARTS: readonly string[] = ['tools[]', 'tools[].tools[]', 'tool_choice'];
export const TOOL_KINDS: readonly string[] = ['tools[].type', 'tools[].tools[].type', 'tool_choice.type'];
