/**
 * Checks on the contents of a well-formed header. They reject values that libllama would refuse with a vaguer message,
 * crash on (a failed assertion, a division by zero, a stack overflow), or allocate all memory for.
 *
 * A missing key is not an error here: libllama reports it itself.
 */
import { VALUE_TYPE } from './ggml-types.ts';
import { quoted } from './gguf-cursor.ts';
import type { GgufArray, GgufEntry, GgufHeader } from './gguf-values.ts';
import { GGUF_LIMITS, MODEL_RANGES, PROJECTOR_RANGES, type Range } from './gguf-limits.ts';
import { templateDepth } from './template-depth.ts';
import type { SvcError } from '../../protocol/errors.ts';

export interface Contents extends GgufHeader {
  /** Bytes of the file, at least its whole header. */
  readonly bytes: Uint8Array;
  invalid(what: string, hint?: string): SvcError;
}

/** libllama's name for the architecture of projectors. */
export const PROJECTOR = 'clip';

const TEMPLATE = 'tokenizer.chat_template';
const TOKENS = 'tokenizer.ggml.tokens';
const TOKENIZER = 'tokenizer.ggml.model';
const SPLIT = 'tokenizer.ggml.pre';
const WHITESPACE = 'whitespace';
const PER_TOKEN: readonly [key: string, types: readonly number[]][] = [
  [TOKENS, [VALUE_TYPE.string]],
  ['tokenizer.ggml.scores', [VALUE_TYPE.float32, VALUE_TYPE.int32]],
  ['tokenizer.ggml.token_type', [VALUE_TYPE.int32, VALUE_TYPE.uint32]],
];
/** Keys that may have one value per layer. */
const PER_LAYER: ReadonlySet<string> = new Set([
  'feed_forward_length',
  'attention.head_count',
  'attention.head_count_kv',
  'expert_used_count',
]);
const ROPE_SCALINGS: readonly unknown[] = ['none', 'linear', 'yarn', 'longrope'];
const TYPE_NAMES = Object.fromEntries(Object.entries(VALUE_TYPE).map(([name, type]) => [type, name]));

/** @throws SvcError MODEL_INVALID */
export function checkContents(file: Contents): void {
  const architecture = architectureOf(file);
  checkSplit(file);
  checkVocabulary(file, architecture);
  checkTemplates(file);
  if (architecture === PROJECTOR) checkProjector(file);
  else if (architecture !== null) checkModel(file, architecture);
}

/** Returns the architecture, which is a part of other keys: libllama must read the same string as this file. */
function architectureOf(file: Contents): string | null {
  const entry = file.metadata.get('general.architecture');
  if (entry === undefined || entry.value === '') return null;
  const { value } = entry;
  if (typeof value === 'string' && value.length <= GGUF_LIMITS.architectureBytes && /^[\w.-]+$/.test(value))
    return value;
  throw file.invalid('has an invalid architecture name (general.architecture)');
}

/** libllama asserts the types of these numbers. */
function checkSplit(file: Contents): void {
  const count = numberAt(file, 'split.count', { least: 0, most: GGUF_LIMITS.parts }, VALUE_TYPE.uint16);
  numberAt(file, 'split.tensors.count', { least: 0, most: GGUF_LIMITS.tensors * GGUF_LIMITS.parts }, VALUE_TYPE.int32);
  const number = numberAt(file, 'split.no', { least: 0, most: GGUF_LIMITS.parts }, VALUE_TYPE.uint16);
  // A model that was merged from parts has a split.count of 0.
  if (number !== null && number >= Math.max(count ?? 1, 1)) {
    throw file.invalid(`claims to be part ${number + 1} of ${Math.max(count ?? 1, 1)}`);
  }
}

/** libllama reads some of these without checking their type, and one value per token without checking the count. */
function checkVocabulary(file: Contents, architecture: string | null): void {
  const { metadata, tensors, invalid } = file;
  const tokens = arrayAt(metadata, TOKENS);
  for (const [key, types] of PER_TOKEN) {
    const value = metadata.get(key)?.value;
    if (value === undefined) continue;
    if (typeof value !== 'object' || !types.includes(value.elementType)) {
      throw invalid(`has values of the wrong type in ${quoted(key)}`);
    }
    if (tokens !== null && value.count < tokens.count) {
      throw invalid(`has ${value.count} values in ${quoted(key)} for ${tokens.count} tokens`);
    }
  }
  if (tokens?.count === 0) throw invalid(`has no tokens in ${quoted(TOKENS)}`);
  // This split leaves blanks in the words. The BPE of other tokenizers aborts there.
  if (metadata.get(SPLIT)?.value === WHITESPACE && metadata.get(TOKENIZER)?.value !== WHITESPACE)
    throw invalid(`splits words (${quoted(SPLIT)}) for another tokenizer than its own`);
  checkMerges(file, tokens);
  const embedding = tensors.find(({ name }) => name === 'token_embd.weight');
  // An eagle3 draft model uses the vocabulary of its target model.
  if (embedding === undefined || tokens === null || architecture === 'eagle3') return;
  const rows = embedding.shape[1] ?? 1;
  if (rows !== tokens.count) throw invalid(`has ${rows} rows in tensor "token_embd.weight" for ${tokens.count} tokens`);
}

function checkMerges({ metadata, invalid }: Contents, tokens: GgufArray | null): void {
  const key = 'tokenizer.ggml.merges';
  if (!metadata.has(key)) return;
  const merges = arrayAt(metadata, key);
  if (merges?.elementType !== VALUE_TYPE.string) throw invalid(`has values of the wrong type in ${quoted(key)}`);
  if (tokens !== null && merges.count > tokens.count * GGUF_LIMITS.mergesPerToken) {
    throw invalid(`has ${merges.count} values in ${quoted(key)} for ${tokens.count} tokens`);
  }
}

/** Checks all chat templates, also named ones such as tokenizer.chat_template.tool_use: libllama reads some. */
function checkTemplates({ metadata, invalid }: Contents): void {
  const hint = 'get the model from another source: usual chat templates stay far below this limit';
  for (const [key, { type, value }] of metadata) {
    if (key !== TEMPLATE && !key.startsWith(`${TEMPLATE}.`)) continue;
    if (type !== VALUE_TYPE.string) throw invalid(`has a chat template that is not a string: ${quoted(key)}`);
    const length = typeof value === 'string' ? Buffer.byteLength(value) : (value as GgufArray).count;
    if (typeof value !== 'string' || length > GGUF_LIMITS.templateBytes) {
      throw invalid(`has a chat template of ${length} bytes; the limit is ${GGUF_LIMITS.templateBytes}`, hint);
    }
    const depth = templateDepth(value);
    if (depth > GGUF_LIMITS.templateDepth) {
      throw invalid(
        `has a chat template that is nested ${depth} levels deep; the limit is ${GGUF_LIMITS.templateDepth}`,
        hint,
      );
    }
  }
}

function checkProjector(file: Contents): void {
  for (const of of ['vision', 'audio']) {
    const numbers = numbersOf(file, `${PROJECTOR}.${of}`, PROJECTOR_RANGES);
    const blocks = of === 'vision' ? /^v\.blk\.\d+\.attn_(q|qkv)\.weight$/ : /^a\.blk\.\d+\.attn_(q|qkv)\.weight$/;
    checkHasHeads(file, numbers['attention.head_count'], blocks);
  }
}

function checkModel(file: Contents, architecture: string): void {
  const { metadata, invalid } = file;
  const numbers = numbersOf(file, architecture, MODEL_RANGES);
  const heads = numbers['attention.head_count'];
  const shared = numbers['attention.head_count_kv'];
  checkHasHeads(file, heads, /^blk\.\d+\.attn_(q|qkv)\.weight$/);
  checkHasHeads(file, shared, /^blk\.\d+\.attn_k\.weight$/);
  if (heads !== null && shared !== null && shared > 0 && heads % shared !== 0) {
    throw invalid(`has ${heads} attention heads, which is not a multiple of its ${shared} KV heads`);
  }
  const width = numbers.embedding_length;
  const headLength =
    numbers['attention.key_length'] ??
    (width !== null && heads !== null && heads > 0 ? Math.floor(width / heads) : null);
  const turned = numbers['rope.dimension_count'];
  if (headLength !== null && turned !== null && turned > headLength && heads !== 0) {
    throw invalid(`has rope.dimension_count ${turned}, more than its head size ${headLength}`);
  }
  const scaling = metadata.get(`${architecture}.rope.scaling.type`)?.value;
  if (scaling !== undefined && !ROPE_SCALINGS.includes(scaling)) {
    throw invalid(`has an unknown RoPE scaling type (${quoted(`${architecture}.rope.scaling.type`)})`);
  }
  // plamo2 has 0 for layers without SSM.
  if (numbers['ssm.group_count'] === 0 && architecture !== 'plamo2') {
    throw invalid(`gives ${quoted(`${architecture}.ssm.group_count`)} the value 0`);
  }
  const predicting = numbers.nextn_predict_layers ?? 0;
  if (predicting > (numbers.block_count ?? predicting)) {
    throw invalid(`has only ${numbers.block_count ?? 0} layers but ${predicting} next-token prediction layers`);
  }
  checkExperts(file, architecture, numbers);
}

function checkHasHeads({ tensors, invalid }: Contents, heads: number | null, ofAttention: RegExp): void {
  const found = heads === 0 ? tensors.find(({ name }) => ofAttention.test(name)) : undefined;
  if (found !== undefined) throw invalid(`has attention (${quoted(found.name)}) with 0 heads`);
}

/** The same conditions that libllama asserts. */
function checkExperts(
  { metadata, invalid }: Contents,
  architecture: string,
  numbers: Record<keyof typeof MODEL_RANGES, number | null>,
): void {
  const experts = numbers.expert_count ?? 0;
  const groups = numbers.expert_group_count ?? 0;
  const groupsUsed = numbers.expert_group_used_count ?? 0;
  if (architecture.startsWith('hunyuan') && experts <= 1) return;
  const isPerLayer = metadata.has(`${architecture}.expert_used_count`) && numbers.expert_used_count === null;
  const used = numbers.expert_used_count ?? 0;
  if (!isPerLayer && (used > experts || (used === 0 && experts > 0))) {
    throw invalid(`uses ${used} experts of ${experts} (expert_used_count, expert_count)`);
  }
  const areGroupsRight =
    groups <= 1
      ? groups === 0 || groups < experts
      : groups < experts && experts % groups === 0 && groupsUsed > 0 && groupsUsed < groups;
  if (!areGroupsRight) {
    throw invalid(`has ${experts} experts in ${groups} groups, of which it uses ${groupsUsed}`);
  }
}

/** Returns the values by key; null: absent, or a value per layer. */
function numbersOf<Key extends string>(
  file: Contents,
  prefix: string,
  ranges: Readonly<Record<Key, Range>>,
): Record<Key, number | null> {
  const numbers = Object.entries<Range>(ranges).map(([name, range]) => {
    const key = `${prefix}.${name}`;
    const list = PER_LAYER.has(name) && !prefix.startsWith(`${PROJECTOR}.`) ? arrayAt(file.metadata, key) : null;
    if (list === null) return [name, numberAt(file, key, range, VALUE_TYPE.uint32)];
    checkList(file, prefix, key, list, range);
    return [name, null];
  });
  return Object.fromEntries(numbers) as Record<Key, number | null>;
}

function numberAt({ metadata, invalid }: Contents, key: string, range: Range, type: number): number | null {
  const entry = metadata.get(key);
  if (entry === undefined) return null;
  const { value } = entry;
  if (entry.type === type && typeof value === 'number' && value >= range.least && value <= range.most) return value;
  const given = typeof value === 'object' ? 'a list' : typeof value === 'string' ? 'a text' : String(value);
  const expected = `a number from ${range.least} to ${range.most}`;
  throw invalid(
    `gives ${quoted(key)} the value ${given} (${TYPE_NAMES[entry.type] ?? ''}) where ${expected} (${TYPE_NAMES[type] ?? ''}) is expected`,
  );
}

/** Checks a list with one number per layer. */
function checkList(
  { metadata, bytes, invalid }: Contents,
  prefix: string,
  key: string,
  list: GgufArray,
  range: Range,
): void {
  const layers = metadata.get(`${prefix}.block_count`)?.value;
  if (list.elementType !== VALUE_TYPE.int32 && list.elementType !== VALUE_TYPE.uint32) {
    throw invalid(`has values of the wrong type in ${quoted(key)}`);
  }
  if (list.count > MODEL_RANGES.block_count.most || (typeof layers === 'number' && list.count !== layers)) {
    throw invalid(
      `has ${list.count} values in ${quoted(key)} for ${typeof layers === 'number' ? layers : `at most ${MODEL_RANGES.block_count.most}`} layers`,
    );
  }
  const view = new DataView(bytes.buffer, bytes.byteOffset + list.start, list.end - list.start);
  for (let index = 0; index < list.count; index += 1) {
    const value =
      list.elementType === VALUE_TYPE.int32 ? view.getInt32(index * 4, true) : view.getUint32(index * 4, true);
    if (value >= range.least && value <= range.most) continue;
    throw invalid(
      `gives ${quoted(key)} the value ${value} in layer ${index} where ${range.least} to ${range.most} is expected`,
    );
  }
}

function arrayAt(metadata: ReadonlyMap<string, GgufEntry>, key: string): GgufArray | null {
  const entry = metadata.get(key);
  return entry?.type === VALUE_TYPE.array ? (entry.value as GgufArray) : null;
}
