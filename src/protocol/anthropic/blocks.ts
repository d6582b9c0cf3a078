/** The content blocks that Anthropic's clients send. Fields without effect here are left out: `cache_control` etc. */
import * as v from 'valibot';
import { ContentPartSchema, LIMITS, ToolCallSchema } from '../generate.ts';

const [, image, imageUrl] = ContentPartSchema.options;
const { id, name } = ToolCallSchema.entries;

const TextBlockSchema = v.object({ type: v.literal('text'), text: v.string() });

const blocks = <Block extends v.GenericSchema>(block: Block) =>
  v.pipe(v.array(block), v.maxLength(LIMITS.contentParts));

const texts = blocks(v.variant('type', [TextBlockSchema]));

const ImageBlockSchema = v.object({
  type: v.literal('image'),
  source: v.variant('type', [
    v.object({ type: v.literal('base64'), media_type: image.entries.media_type, data: image.entries.data }),
    v.object({ type: v.literal('url'), url: imageUrl.entries.url }),
  ]),
});

/** Text. Of PDFs and files only the type is kept: svc cannot read them. */
const DocumentBlockSchema = v.object({
  type: v.literal('document'),
  title: v.nullish(v.string()),
  context: v.nullish(v.string()),
  source: v.variant('type', [
    v.object({ type: v.literal('text'), data: v.string() }),
    v.object({
      type: v.literal('content'),
      // Unlike in a union, errors name the block.
      content: v.lazy((content) => (Array.isArray(content) ? texts : v.string())),
    }),
    v.object({ type: v.picklist(['base64', 'url', 'file']) }),
  ]),
});

const SearchResultBlockSchema = v.object({
  type: v.literal('search_result'),
  source: v.string(),
  title: v.string(),
  content: texts,
});

/** A tool that the client found for the model, which may call it from now on. */
const ToolReferenceBlockSchema = v.object({ type: v.literal('tool_reference'), tool_name: name });

const ToolResultBlockSchema = v.object({
  type: v.literal('tool_result'),
  tool_use_id: id,
  /** A string or ResultBlocksSchema, which parses it apart, so that errors name the block. */
  content: v.exactOptional(v.unknown()),
  is_error: v.nullish(v.boolean()),
});

/** `system`, and messages of that role. */
export const SystemBlocksSchema = texts;

/** Content of a tool's result. */
export const ResultBlocksSchema = blocks(
  v.variant('type', [
    TextBlockSchema,
    ImageBlockSchema,
    DocumentBlockSchema,
    SearchResultBlockSchema,
    ToolReferenceBlockSchema,
  ]),
);

export const UserBlocksSchema = blocks(
  v.variant('type', [
    TextBlockSchema,
    ImageBlockSchema,
    DocumentBlockSchema,
    SearchResultBlockSchema,
    ToolResultBlockSchema,
  ]),
);

/** What a search that the provider ran has found; an error is an object. */
const WebSearchBlockSchema = v.object({
  type: v.literal('web_search_tool_result'),
  content: v.lazy((content) =>
    Array.isArray(content) ? blocks(v.object({ title: v.string(), url: v.string() })) : v.object({}),
  ),
});

/** Blocks that are ignored: what only its author can read, and calls that a provider ran itself, with their results. */
const IGNORED = [
  'redacted_thinking',
  'server_tool_use',
  'web_fetch_tool_result',
  'code_execution_tool_result',
  'bash_code_execution_tool_result',
  'text_editor_code_execution_tool_result',
  'tool_search_tool_result',
  'advisor_tool_result',
  'mcp_tool_use',
  'mcp_tool_result',
] as const;

export const AssistantBlocksSchema = blocks(
  v.variant('type', [
    TextBlockSchema,
    v.object({ type: v.literal('thinking'), thinking: v.string(), signature: v.nullish(v.string()) }),
    WebSearchBlockSchema,
    v.object({ type: v.picklist(IGNORED) }),
    v.object({ type: v.literal('tool_use'), id, name, input: v.record(v.string(), v.unknown()) }),
  ]),
);

type BlockOf<Blocks extends v.GenericSchema> = v.InferOutput<Blocks> extends readonly (infer Block)[] ? Block : never;

/** A block that becomes a text or a picture. */
export type PlainBlock = BlockOf<typeof ResultBlocksSchema>;
export type UserBlock = BlockOf<typeof UserBlocksSchema>;
export type ThinkingBlock = Extract<AssistantBlock, { type: 'thinking' }>;
export type AssistantBlock = BlockOf<typeof AssistantBlocksSchema>;
export type ToolResultBlock = Extract<UserBlock, { type: 'tool_result' }>;
export type WebSearchBlock = v.InferOutput<typeof WebSearchBlockSchema>;
