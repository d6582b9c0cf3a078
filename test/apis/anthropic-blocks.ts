/** Content blocks of Anthropic's messages. */
import { honoured, ignored, refused, type Field } from './declare.ts';

type Block = Readonly<Record<string, unknown>>;
type Context = Readonly<Record<string, unknown>>;

export const CONTENT = 'messages[].content[]';
export const CACHE = 'every prompt is cached automatically';
const PNG = { type: 'base64', media_type: 'image/png', data: 'iVBORw0KGgo=' };
const BY_URL = { type: 'url', url: 'https://example.org/a.png' };

/** A message with this block. */
export const user = (block: Block): Context => ({ messages: [{ role: 'user', content: [block] }] });
export const assistant = (block: Block): Context => ({ messages: [{ role: 'assistant', content: [block] }] });

const TEXT = { type: 'text', text: 'hi' };
const IMAGE = { type: 'image', source: PNG };
const DOCUMENT = { type: 'document', source: { type: 'text', media_type: 'text/plain', data: 'a' } };
const chapters = (block: Block): Block => ({ type: 'document', source: { type: 'content', content: [block] } });
const CHAPTERS = chapters(TEXT);
const FOUND = { type: 'search_result', source: 's', title: 't', content: [TEXT] };
const THOUGHT = { type: 'thinking', thinking: 'so', signature: 's' };
const CALL = { type: 'tool_use', id: 'c1', name: 'f', input: {} };
const RESULT = { type: 'tool_result', tool_use_id: 'c1', content: [TEXT] };
const REFERENCE = { type: 'tool_reference', tool_name: 'f' };
const PAGE = { type: 'web_search_result', title: 'Title', url: 'https://example.org/a', encrypted_content: 'x' };
const SEARCHED = { type: 'web_search_tool_result', tool_use_id: 's', content: [PAGE] };
const inResult = (block: Block): Context => user({ ...RESULT, content: [block] });

const AT = 'messages[0].content';
const NO_CITATIONS = 'answers have no citations';
const TYPE = `${CONTENT}.type`;
const PROGRAMS = 'only the model calls tools here';

/** Blocks that only Anthropic's own servers make. */
export const foreign = (type: string): Field => refused(`${TYPE} = ${type}`, { type }, assistant(TEXT));

/** Such blocks, without which the history can be read. */
export const dropped = (type: string, why: string = RAN): Field => ({
  ...ignored(`${TYPE} = ${type}`, why, null, assistant(TEXT)),
  sent: { messages: [{ role: 'assistant', content: [TEXT, { type }] }] },
});
const RAN = 'a tool that the provider ran itself';

const TYPES: readonly Field[] = [
  honoured(`${TYPE} = text`, AT, { type: 'text', text: 'other' }),
  honoured(`${TYPE} = image`, AT, IMAGE),
  honoured(`${TYPE} = document`, AT, DOCUMENT),
  honoured(`${TYPE} = search_result`, AT, FOUND),
  honoured(`${TYPE} = thinking`, 'messages[0].reasoning', THOUGHT, assistant(TEXT)),
  dropped('redacted_thinking', 'only its author can read it'),
  honoured(`${TYPE} = tool_use`, 'messages[0].tool_calls', CALL, assistant(TEXT)),
  honoured(`${TYPE} = tool_result`, 'messages[0].tool_call_id', RESULT),
  honoured(`${TYPE} = web_search_tool_result`, AT, SEARCHED, assistant(TEXT)),
  ...[
    'server_tool_use',
    'web_fetch_tool_result',
    'code_execution_tool_result',
    'bash_code_execution_tool_result',
    'text_editor_code_execution_tool_result',
    'tool_search_tool_result',
  ].map((type) => dropped(type)),
  refused(`${TYPE} = container_upload`, { type: 'container_upload', file_id: 'file_1' }),
];

/** Texts in a document or in a result of a search. `around`: the request with one of them. */
function textsIn(path: string, around: (block: Block) => Context): Field[] {
  return [
    honoured(`${path}.text`, AT, 'other', around(TEXT)),
    refused(`${path}.type`, 'other', around(TEXT)),
    ignored(`${path}.cache_control`, CACHE, { type: 'ephemeral' }, around(TEXT)),
    ignored(`${path}.citations`, NO_CITATIONS, [], around(TEXT)),
  ];
}

/** Pictures in a document. */
function picturesIn(path: string, around: (block: Block) => Context): Field[] {
  return [
    refused(`${path}.source`, PNG, around({ type: 'image' }), `${path}.type`),
    refused(`${path}.transformations`, {}, around(IMAGE), `${path}.type`),
  ];
}

const SOURCE = `${CONTENT}.source`;

const SOURCES: readonly Field[] = [
  honoured(SOURCE, AT, { ...PNG, data: 'iVBORw0KGgoA' }, user(IMAGE)),
  honoured(`${SOURCE}.type = base64`, AT, PNG, user({ type: 'image', source: BY_URL })),
  honoured(`${SOURCE}.type = url`, AT, BY_URL, user(IMAGE)),
  refused(`${SOURCE}.type = file`, { type: 'file', file_id: 'file_1' }, user(IMAGE)),
  honoured(`${SOURCE}.type = text`, AT, { type: 'text', media_type: 'text/plain', data: 'b' }, user(DOCUMENT)),
  honoured(`${SOURCE}.type = content`, AT, { type: 'content', content: 'b' }, user(DOCUMENT)),
  honoured(`${SOURCE}.data`, `${AT}[0].data`, 'iVBORw0KGgoA', user(IMAGE)),
  honoured(`${SOURCE}.media_type`, `${AT}[0].media_type`, 'image/gif', user(IMAGE)),
  honoured(`${SOURCE}.url`, `${AT}[0].url`, 'https://example.org/b.png', user({ type: 'image', source: BY_URL })),
  refused(`${SOURCE}.file_id`, 'file_1', user({ type: 'image', source: { type: 'file' } }), `${SOURCE}.type`),
  honoured(`${SOURCE}.content`, AT, 'b', user(CHAPTERS)),
  ...textsIn(`${SOURCE}.content[]`, (block) => user(chapters(block))),
  ...picturesIn(`${SOURCE}.content[]`, (block) => user(chapters(block))),
];

const INNER = `${CONTENT}.content[]`;

/** Blocks in a tool's result, and texts in a result of a search. */
const INNER_BLOCKS: readonly Field[] = [
  honoured(`${INNER}.type = text`, AT, { type: 'text', text: 'other' }, inResult(IMAGE)),
  honoured(`${INNER}.type = image`, AT, IMAGE, inResult(TEXT)),
  honoured(`${INNER}.type = document`, AT, DOCUMENT, inResult(TEXT)),
  honoured(`${INNER}.type = search_result`, AT, FOUND, inResult(TEXT)),
  honoured(`${INNER}.type = tool_reference`, AT, REFERENCE, inResult(TEXT)),
  refused(`${INNER}.type = browser_state`, { type: 'browser_state', tabs: [] }, inResult(TEXT)),
  honoured(`${INNER}.type = web_search_result`, AT, PAGE, assistant({ ...SEARCHED, content: [] })),
  honoured(`${INNER}.text`, AT, 'other', inResult(TEXT)),
  honoured(`${INNER}.source`, AT, { ...PNG, data: 'iVBORw0KGgoA' }, inResult(IMAGE)),
  honoured(
    `${INNER}.source.type`,
    AT,
    'base64',
    inResult({ type: 'image', source: { media_type: 'image/png', data: 'iVBORw0KGgo=' } }),
  ),
  honoured(`${INNER}.source.data`, `${AT}[0].data`, 'iVBORw0KGgoA', inResult(IMAGE)),
  honoured(`${INNER}.source.media_type`, `${AT}[0].media_type`, 'image/gif', inResult(IMAGE)),
  honoured(
    `${INNER}.source.url`,
    `${AT}[0].url`,
    'https://example.org/b.png',
    inResult({ type: 'image', source: BY_URL }),
  ),
  refused(
    `${INNER}.source.file_id`,
    'file_1',
    inResult({ type: 'image', source: { type: 'file' } }),
    `${INNER}.source.type`,
  ),
  honoured(`${INNER}.source.content`, AT, 'b', inResult(CHAPTERS)),
  ...textsIn(`${INNER}.source.content[]`, (block) => inResult(chapters(block))),
  ...picturesIn(`${INNER}.source.content[]`, (block) => inResult(chapters(block))),
  honoured(`${INNER}.tool_name`, AT, 'g', inResult(REFERENCE)),
  honoured(`${INNER}.context`, AT, 'about', inResult(DOCUMENT)),
  honoured(`${INNER}.title`, AT, 'Title', inResult(DOCUMENT)),
  honoured(`${INNER}.content`, AT, [{ type: 'text', text: 'b' }], inResult(FOUND)),
  ...textsIn(`${INNER}.content[]`, (block) => inResult({ ...FOUND, content: [block] })),
  ignored(`${INNER}.cache_control`, CACHE, { type: 'ephemeral' }, inResult(TEXT)),
  ignored(`${INNER}.citations`, NO_CITATIONS, { enabled: true }, inResult(DOCUMENT)),
  ignored(`${INNER}.transformations`, 'every picture is scaled as the model needs it', {}, inResult(IMAGE)),
  honoured(`${INNER}.url`, AT, 'https://example.org/b', assistant(SEARCHED)),
  ignored(`${INNER}.encrypted_content`, 'only its author can read it', 'y', assistant(SEARCHED)),
  ignored(`${INNER}.page_age`, 'titles and addresses are kept', '1 day', assistant(SEARCHED)),
  ...(['tabs', 'state_changes'] as const).map((name) =>
    refused(`${INNER}.${name}`, 'x', inResult({ type: 'browser_state' }), `${INNER}.type`),
  ),
];

export const BLOCKS: readonly Field[] = [
  ...TYPES,
  honoured(`${CONTENT}.text`, AT, 'other', user(TEXT)),
  ...SOURCES,
  honoured(`${CONTENT}.title`, AT, 'Title', user(DOCUMENT)),
  honoured(`${CONTENT}.context`, AT, 'about', user(DOCUMENT)),
  honoured(`${CONTENT}.content`, AT, 'other', user(RESULT)),
  ...INNER_BLOCKS,
  honoured(`${CONTENT}.thinking`, 'messages[0].reasoning', 'other', assistant(THOUGHT)),
  honoured(`${CONTENT}.signature`, 'messages[0].reasoning', 'svc:b3RoZXI=', assistant({ ...THOUGHT, thinking: '' })),
  ignored(`${CONTENT}.data`, 'only its author can read it', 'x', assistant({ type: 'redacted_thinking' })),
  honoured(`${CONTENT}.id`, 'messages[0].tool_calls[0].id', 'c2', assistant(CALL)),
  honoured(`${CONTENT}.name`, 'messages[0].tool_calls[0].name', 'g', assistant(CALL)),
  honoured(`${CONTENT}.input`, 'messages[0].tool_calls[0].arguments', { a: 1 }, assistant(CALL)),
  ignored(`${CONTENT}.caller`, PROGRAMS, { type: 'direct' }, assistant(CALL)),
  ignored(`${CONTENT}.toolset_name`, 'only tools with a schema are offered', 'browser', assistant(CALL)),
  honoured(`${CONTENT}.tool_use_id`, 'messages[0].tool_call_id', 'c2', user(RESULT)),
  honoured(`${CONTENT}.is_error`, AT, true, user(RESULT)),
  refused(`${CONTENT}.file_id`, 'file_1', user({ type: 'container_upload' }), TYPE),
  ignored(`${CONTENT}.cache_control`, CACHE, { type: 'ephemeral' }, user(TEXT)),
  ignored(`${CONTENT}.citations`, NO_CITATIONS, { enabled: true }, user(DOCUMENT)),
  ignored(`${CONTENT}.transformations`, 'every picture is scaled as the model needs it', {}, user(IMAGE)),
];

/** Parts of these blocks, for the SDK's types. */
export const BLOCK_PARTS: readonly string[] = [
  CONTENT,
  SOURCE,
  `${SOURCE}.content[]`,
  INNER,
  `${INNER}.source`,
  `${INNER}.source.content[]`,
  `${INNER}.content[]`,
];
/** Contents of blocks that are refused. */
export const BLOCK_OPAQUE: readonly string[] = [`${CONTENT}.content`, `${CONTENT}.input`];
export const BLOCK_KINDS: readonly string[] = [TYPE, `${SOURCE}.type`, `${INNER}.type`];
