/** Anthropic's Messages, and the counting of their tokens. */
import { FINISH, START, text, type Script } from '../http/scripted.ts';
import {
  BLOCK_KINDS,
  BLOCK_OPAQUE,
  BLOCK_PARTS,
  BLOCKS,
  CACHE,
  CONTENT,
  dropped,
  foreign,
} from './anthropic-blocks.ts';
import { BESIDE, SEARCH, SERVER, TOOL_FIELDS } from './anthropic-tools.ts';
import { honoured, honouredIn, ignored, refused, type Api, type Field } from './declare.ts';

const SYSTEM = { system: [{ type: 'text', text: 'Be brief.' }] };
const SCHEMA = { output_config: { format: { type: 'json_schema', schema: {} } } };
const SERVICE = "it concerns Anthropic's service";

const FIELDS: readonly Field[] = [
  honoured('model', 'model', 'small'),
  honoured('messages', 'messages', [{ role: 'user', content: 'other' }]),
  honoured(
    'messages[].role = user',
    'messages[0].role',
    { role: 'user', content: 'hi' },
    { messages: [{ role: 'assistant', content: 'a' }] },
  ),
  honoured('messages[].role = assistant', 'messages[0].role', { role: 'assistant', content: 'hi' }),
  honoured('messages[].role = system', 'messages[0].role', { role: 'system', content: 'hi' }),
  honoured('messages[].content', 'messages[0].content', 'other'),
  ...BLOCKS,
  honoured('system', 'messages[0].role', 'Be brief.'),
  honoured('system[].type = text', 'messages[0].content', { type: 'text', text: 'other' }, SYSTEM),
  honoured('system[].text', 'messages[0].content', 'other', SYSTEM),
  ignored('system[].cache_control', CACHE, { type: 'ephemeral' }, SYSTEM),
  ignored('system[].citations', 'answers have no citations', [], SYSTEM),
  honoured('thinking', 'reasoning_effort', { type: 'disabled' }),
  honoured('thinking.type = enabled', 'reasoning_budget_tokens', { type: 'enabled', budget_tokens: 2048 }),
  honoured('thinking.type = disabled', 'reasoning_effort', { type: 'disabled' }),
  ignored('thinking.type = adaptive', 'it is the default: the model decides', { type: 'adaptive' }),
  ignored('thinking.type = between_tools', 'a model that thinks may do so before every answer', {
    type: 'between_tools',
  }),
  honoured('thinking.budget_tokens', 'reasoning_budget_tokens', 4096, {
    thinking: { type: 'enabled', budget_tokens: 2048 },
  }),
  honoured('output_config', 'reasoning_effort', { effort: 'low' }),
  ...['low', 'medium', 'high', 'xhigh', 'max'].map((effort) =>
    honoured(`output_config.effort = ${effort}`, 'reasoning_effort', effort),
  ),
  honoured('output_config.format', 'format', { type: 'json_schema', schema: {} }),
  honoured('output_config.format.type = json_schema', 'format', { type: 'json_schema', schema: {} }),
  honoured('output_config.format.schema', 'format.schema', { type: 'object' }, SCHEMA),
  ...TOOL_FIELDS,
  ignored('cache_control', CACHE, { type: 'ephemeral' }),
  ignored('cache_control.type', CACHE, 'ephemeral'),
  ignored('cache_control.ttl', CACHE, '1h', { cache_control: { type: 'ephemeral' } }),
  ignored('speed', SERVICE, 'fast'),
  ignored('user_profile_id', `a header; ${SERVICE}`, 'p'),
  ignored('workspace_id', `a header; ${SERVICE}`, 'w'),
];

/** Fields of answers, which counting tokens does not have. */
const OF_ANSWERS: readonly Field[] = [
  honoured('max_tokens', 'max_tokens', 5),
  honoured('stream', 'answer', true),
  honoured('stop_sequences', 'stop', ['END']),
  honoured('temperature', 'sampling.temperature', 0.5),
  honoured('top_k', 'sampling.top_k', 5),
  honoured('top_p', 'sampling.top_p', 0.5),
  honoured('thinking.display = omitted', 'answer', 'omitted', { thinking: { type: 'adaptive' } }),
  honoured('thinking.display = summarized', 'answer', 'summarized', {
    thinking: { type: 'adaptive', display: 'omitted' },
  }),
  refused('container', 'c1'),
  refused('container.id', 'c1', {}, 'container'),
  refused('container.skills', [], {}, 'container'),
  ignored('metadata', 'svc counts by API key, and stores no labels of messages', { user_id: 'u' }),
  ignored('metadata.user_id', 'svc counts by API key, and stores no labels of messages', 'u'),
  ignored('diagnostics', SERVICE, {}),
  ignored('diagnostics.previous_message_id', SERVICE, 'msg_1', { diagnostics: {} }),
  ignored('inference_geo', SERVICE, 'eu'),
  ignored('service_tier', 'there is one tier', 'auto'),
];

const PARTS = [
  'cache_control',
  'messages[]',
  ...BLOCK_PARTS,
  'system[]',
  'thinking',
  'output_config',
  'output_config.format',
  'tools[]',
  'tool_choice',
];
const KINDS = [
  'messages[].role',
  ...BLOCK_KINDS,
  'system[].type',
  'thinking.type',
  'output_config.effort',
  'output_config.format.type',
  'tools[].type',
  'tool_choice.type',
];
const OPAQUE = ['tools[].input_schema', ...BLOCK_OPAQUE];
const stable = '@anthropic-ai/sdk/resources/messages/messages.d.ts';
const beta = '@anthropic-ai/sdk/resources/beta/messages/messages.d.ts';
const prompt = { model: 'tiny', messages: [{ role: 'user', content: 'hi' }] };
const base = { ...prompt, max_tokens: 9 };

const thinking: Script = async function* () {
  yield START;
  yield { type: 'reasoning', text: 'Hm.' };
  yield text('hello');
  yield FINISH;
};

export const MESSAGES = {
  title: 'Anthropic: messages',
  path: '/v1/messages',
  sdk: {
    file: stable,
    name: 'MessageCreateParams',
    parts: [...PARTS, 'metadata', 'container', 'diagnostics'],
    kinds: [...KINDS, 'thinking.display'],
    opaque: OPAQUE,
    more: ['temperature', 'top_k', 'top_p'],
  },
  base,
  script: thinking,
  fields: [...FIELDS, ...OF_ANSWERS],
} satisfies Api;

export const COUNT_TOKENS: Api = {
  title: 'Anthropic: tokens of messages',
  path: '/v1/messages/count_tokens',
  sdk: {
    file: stable,
    name: 'MessageCountTokensParams',
    parts: PARTS,
    kinds: KINDS,
    opaque: OPAQUE,
  },
  base: prompt,
  fields: [
    ...FIELDS,
    ignored('thinking.display', 'tokens are counted; no answer is generated', 'omitted', {
      thinking: { type: 'adaptive' },
    }),
  ],
};

const CHOSEN = "fallbacks are set by svc's policies";
const NEW_BLOCKS = ['tool_addition', 'tool_removal', 'compaction', 'mcp_tool_listing', 'fallback'];
const USER = { role: 'user', content: 'hi' };
const LATE = {
  messages: [USER, { role: 'system', content: 'Be brief.' }],
};
const CLEARED = { messages: [USER, { role: 'system', content: 'Be brief.', clear_at: 'next_user_message' }, USER] };

/** Beyond both of the above. */
export const BETA_MESSAGES: Api = {
  title: 'Anthropic: messages, further fields of its betas',
  path: '/v1/messages',
  sdk: {
    file: beta,
    name: 'MessageCreateParams',
    beyond: MESSAGES.sdk,
    parts: [...MESSAGES.sdk.parts, 'output_format'],
    kinds: [...MESSAGES.sdk.kinds, 'output_format.type'],
    opaque: OPAQUE,
  },
  base,
  script: thinking,
  fields: [
    ignored('betas', 'a header; every beta is served alike', ['x']),
    ignored('billing_policy', SERVICE, { type: 'billing_policy' }),
    refused('compaction', { type: 'compaction' }),
    ignored('context_management', 'svc does not shorten the history', { edits: [] }),
    ignored('fallback_credit_token', SERVICE, 't'),
    ignored('fallbacks', CHOSEN, 'default'),
    refused('mcp_servers', [{ type: 'url', name: 'a', url: 'https://mcp.example' }]),
    honoured('output_format', 'format', { type: 'json_schema', schema: {} }),
    honoured('output_format.type = json_schema', 'format', { type: 'json_schema', schema: {} }),
    honoured(
      'output_format.schema',
      'format.schema',
      { type: 'object' },
      {
        output_format: { type: 'json_schema', schema: {} },
      },
    ),
    refused('thread', { type: 'create' }),
    ignored('output_config.task_budget', 'svc has no budget for a whole task', { type: 'tokens', total: 9 }),
    ignored('thinking.block_binding', 'signatures are not checked', {}, { thinking: { type: 'adaptive' } }),
    honoured('thinking.display = updates', 'answer', 'updates', { thinking: { type: 'adaptive' } }),
    honouredIn('messages[].clear_at', 'messages', CLEARED, { messages: [...LATE.messages, USER] }),
    ignored('messages[].output_config', 'the effort holds for the whole request', { effort: 'low' }, LATE),
    ...NEW_BLOCKS.map((type) => foreign(type)),
    ...['advisor_tool_result', 'mcp_tool_use', 'mcp_tool_result'].map((type) => dropped(type)),
    ...[
      'tool',
      'server_name',
      'encrypted_content',
      'tool_changes',
      'mcp_server_name',
      'tools',
      'from',
      'to',
      'trigger',
    ].map((name) =>
      refused(
        `${CONTENT}.${name}`,
        'x',
        { messages: [{ role: 'assistant', content: [{ type: 'compaction' }] }] },
        `${CONTENT}.type`,
      ),
    ),
    ...[
      'bash_20241022',
      'computer_20241022',
      'computer_20250124',
      'text_editor_20241022',
      'computer_20251124',
      'advisor_20260301',
      'mcp_toolset',
    ].map((type) => ignored(`tools[].type = ${type}`, SERVER, { type, name: 'x' }, BESIDE)),
    ...[
      'display_height_px',
      'display_width_px',
      'display_number',
      'enable_zoom',
      'model',
      'caching',
      'max_tokens',
      'mcp_server_name',
      'default_config',
      'tools',
    ].map((name) => ignored(`tools[].${name}`, SERVER, 1, SEARCH)),
  ],
};
