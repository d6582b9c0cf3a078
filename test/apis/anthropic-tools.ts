/** Tools of Anthropic's messages. */
import { CACHE } from './anthropic-blocks.ts';
import { honoured, ignored, type Field } from './declare.ts';

const TOOL = { name: 'f', description: 'Looks', input_schema: { type: 'object' } };
const TOOLS = { tools: [TOOL] };
const BOTH = { tools: [TOOL, { ...TOOL, name: 'g' }], tool_choice: { type: 'tool', name: 'f' } };
export const SERVER =
  'Anthropic runs such tools, or its models know them without a schema; refused if there are no others';
export const SEARCH = { tools: [TOOL, { type: 'web_search_20250305', name: 'web_search' }] };
/** A tool and a place for another. */
export const BESIDE = { tools: [TOOL, { ...TOOL, type: 'bash_20241022' }] };

const SERVER_TOOLS: readonly string[] = [
  'bash_20250124',
  'code_execution_20250522',
  'code_execution_20250825',
  'code_execution_20260120',
  'code_execution_20260521',
  'browser_toolset_20260801',
  'memory_20250818',
  'computer_toolset_20260801',
  'text_editor_20250124',
  'text_editor_20250429',
  'text_editor_20250728',
  'web_search_20250305',
  'web_fetch_20250910',
  'web_search_20260209',
  'web_fetch_20260209',
  'web_fetch_20260309',
  'web_search_20260318',
  'web_fetch_20260318',
  'tool_search_tool_bm25',
  'tool_search_tool_bm25_20251119',
  'tool_search_tool_regex',
  'tool_search_tool_regex_20251119',
];

const ofServer = (name: string, value: unknown): Field => ignored(`tools[].${name}`, SERVER, value, SEARCH);

export const TOOL_FIELDS: readonly Field[] = [
  honoured('tools', 'tools', [TOOL]),
  honoured('tools[].type = custom', 'tools', { ...TOOL, type: 'custom' }),
  ...SERVER_TOOLS.map((type) => ignored(`tools[].type = ${type}`, SERVER, { type, name: 'x' }, BESIDE)),
  honoured('tools[].name', 'tools[0].name', 'g', TOOLS),
  honoured('tools[].description', 'tools[0].description', 'Other', TOOLS),
  honoured('tools[].input_schema', 'tools[0].parameters', { type: 'object', required: ['a'] }, TOOLS),
  honoured('tools[].strict', 'tools[0].strict', true, TOOLS),
  ignored('tools[].cache_control', CACHE, { type: 'ephemeral' }, TOOLS),
  ignored('tools[].allowed_callers', 'only the model calls tools here', ['direct'], TOOLS),
  honoured('tools[].defer_loading', 'tools', true, { tools: [{ ...TOOL, name: 'g' }, TOOL] }),
  ignored('tools[].eager_input_streaming', 'arguments are streamed as they are written', true, TOOLS),
  ignored('tools[].input_examples', 'models get the description and the schema', [{}], TOOLS),
  ofServer('configs', {}),
  ofServer('max_characters', 9),
  ofServer('allowed_domains', ['a.example']),
  ofServer('blocked_domains', ['a.example']),
  ofServer('max_uses', 3),
  ofServer('user_location', { type: 'approximate' }),
  ofServer('citations', { enabled: true }),
  ofServer('max_content_tokens', 9),
  ofServer('url_sources', []),
  ofServer('use_cache', true),
  ofServer('response_inclusion', 'full'),
  honoured('tool_choice', 'tool_choice', { type: 'any' }, TOOLS),
  ...['auto', 'none'].map((type) => honoured(`tool_choice.type = ${type}`, 'tool_choice', { type }, TOOLS)),
  honoured('tool_choice.type = any', 'tool_choice', { type: 'any' }, TOOLS),
  honoured('tool_choice.type = tool', 'tool_choice', { type: 'tool', name: 'f' }, TOOLS),
  honoured('tool_choice.name', 'tool_choice.name', 'g', BOTH),
  honoured('tool_choice.disable_parallel_tool_use', 'parallel_tool_calls', true, {
    ...TOOLS,
    tool_choice: { type: 'auto' },
  }),
];
