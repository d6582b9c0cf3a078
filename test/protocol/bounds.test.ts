/**
 * Every text, list and object of a request has a bound in its schema, or is named here with the reason why the body's own
 * bounds are enough: its bytes, and the number of its values (src/daemon/http/json-gauge.ts).
 */
import ts from 'typescript';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { read, trackedFiles } from '../architecture/source-files.ts';

const BOUNDS = /^v\.(?:maxLength|maxBytes|maxEntries|regex|isoTimestamp)\(/;

interface Unbounded {
  readonly kind: string;
  /** `FILE SCHEMA.FIELD` */
  readonly place: string;
}

/** Schemas of texts, lists and objects without a bound, but for the names of an object's fields. */
function unboundedIn(path: string): Unbounded[] {
  const source = ts.createSourceFile(path, read(path), ts.ScriptTarget.Latest, true);
  const found: Unbounded[] = [];
  const visit = (node: ts.Node, names: readonly string[]): void => {
    const isNamed = ts.isVariableDeclaration(node) || ts.isFunctionDeclaration(node) || ts.isPropertyAssignment(node);
    const within = isNamed ? [...names, node.name?.getText() ?? ''] : names;
    const [, kind] = ts.isCallExpression(node)
      ? (/^v\.(string|array|record)$/.exec(node.expression.getText()) ?? [])
      : [];
    if (kind !== undefined && !isBounded(node)) {
      const [schema = '', field] = [within[0], within.length > 1 ? within.at(-1) : undefined];
      found.push({ kind, place: `${path.replace('src/', '')} ${schema}${field === undefined ? '' : `.${field}`}` });
    }
    ts.forEachChild(node, (child) => visit(child, within));
  };
  visit(source, []);
  return found;
}

function isBounded(node: ts.Node): boolean {
  const { parent } = node;
  if (!ts.isCallExpression(parent) || parent.arguments[0] !== node) return false;
  const called = parent.expression.getText();
  if (called === 'v.record') return true;
  return called === 'v.pipe' && parent.arguments.some((argument) => BOUNDS.test(argument.getText()));
}

const PATHS = /^src\/(?:protocol|daemon\/http)\/.*\.ts$/;
const all = trackedFiles()
  .filter((path) => PATHS.test(path))
  .flatMap(unboundedIn);

/** Texts that a model reads, and the JSON that tools and schemas consist of. What reads them takes linear time. */
const FREE: Readonly<Record<string, readonly string[]>> = {
  'protocol/anthropic/blocks.ts': [
    'TextBlockSchema.text',
    'DocumentBlockSchema.title',
    'DocumentBlockSchema.context',
    'DocumentBlockSchema.data',
    'DocumentBlockSchema.content',
    'SearchResultBlockSchema.source',
    'SearchResultBlockSchema.title',
    'WebSearchBlockSchema.title',
    'WebSearchBlockSchema.url',
    'AssistantBlocksSchema.thinking',
    'AssistantBlocksSchema.signature',
    'AssistantBlocksSchema.input',
  ],
  'protocol/anthropic/messages-request.ts': ['JsonFormatSchema.schema'],
  'protocol/anthropic/tools.ts': ['CustomToolSchema.description'],
  'protocol/embed.ts': ['EmbedRequestSchema.input'],
  'protocol/generate.ts': [
    'jsonObject',
    'base64',
    'ContentPartSchema.text',
    'ToolCallSchema.arguments',
    'MessageSchema.content',
    'MessageSchema.reasoning',
    'ToolSchema.description',
  ],
  'protocol/llama-server/infill.ts': [
    'InfillSchema.input_prefix',
    'InfillSchema.input_suffix',
    'InfillSchema.filename',
    'InfillSchema.text',
    'InfillSchema.prompt',
  ],
  'protocol/ollama/context.ts': ['TurnsSchema.content'],
  'protocol/ollama/embed.ts': ['parseOllamaEmbeddings'],
  'protocol/ollama/generate-request.ts': [
    'OllamaGenerateSchema.prompt',
    'OllamaGenerateSchema.system',
    'OllamaGenerateSchema.suffix',
  ],
  'protocol/ollama/messages.ts': [
    'ImagesSchema',
    'OllamaMessageSchema.content',
    'OllamaMessageSchema.thinking',
    'OllamaMessageSchema.arguments',
  ],
  'protocol/ollama/models.ts': ['CreateSchema.system'],
  'protocol/ollama/request.ts': ['jsonObject'],
  'protocol/openai/completions.ts': ['CompletionSchema.suffix'],
  'protocol/openai/messages.ts': ['WireToolCallsSchema.arguments', 'WireToolCallsSchema.input'],
  'protocol/openai/response-format.ts': ['jsonSchema'],
  'protocol/openai/responses/items.ts': [
    'content',
    'texts.text',
    'InputItemSchema.arguments',
    'InputItemSchema.encrypted_content',
  ],
  'protocol/openai/responses/request.ts': ['ResponsesSchema.input', 'ResponsesSchema.instructions'],
  'protocol/openai/responses/tools.ts': ['NamespaceToolSchema.description'],
  'protocol/openai/tools.ts': ['FunctionToolSchema.description', 'FunctionToolSchema.parameters'],
  'protocol/rerank.ts': ['RerankRequestSchema.query', 'RerankRequestSchema.documents'],
};

/** Others, each with the reason. */
const OTHERS: Readonly<Record<string, string>> = {
  'protocol/ollama/embed.ts OllamaEmbedSchema.options': 'those that svc knows are parsed apart',
  'protocol/ollama/models.ts CreateSchema.parameters': 'an object: those that svc knows are parsed apart',
  'protocol/openai/completions.ts TokensSchema': 'tokens, which are counted before they are parsed',
  'protocol/openai/responses/request.ts ResponsesSchema.include': 'only compared with a name',
  'protocol/openai/transcription.ts TranscriptionFieldsSchema.temperature': 'a number as text, of a form',
};

const known = new Set([
  ...Object.entries(FREE).flatMap(([file, fields]) => fields.map((field) => `${file} ${field}`)),
  ...Object.keys(OTHERS),
]);

test('every text, list and object of a request has a bound, or needs none', () => {
  assert.ok(all.length > 50);
  assert.equal(
    all.filter(({ place }) => !known.has(place)).map(({ kind, place }) => `${kind} ${place}`),
    [],
  );
});

test('what is named here has none', () => {
  const places = new Set(all.map(({ place }) => place));
  assert.equal(
    [...known].filter((place) => !places.has(place)),
    [],
  );
});

test.run();
