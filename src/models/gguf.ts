/** What a model file says about itself, read without its weights. */
import { constants } from 'node:fs';
import { open, stat, type FileHandle } from 'node:fs/promises';
import { FILE_TYPES } from './ggml-types.ts';
import { PROJECTOR } from './gguf-checks.ts';
import { quoted } from './gguf-cursor.ts';
import { parseGgufHeader, type GgufArray, type GgufEntry, type GgufHeader, type GgufTensor } from './gguf-header.ts';
import { GGUF_LIMITS } from './gguf-limits.ts';
import { partName, partsBeside } from './part-names.ts';
import { SvcError } from '../protocol/errors.ts';
import type { Capability } from '../protocol/records.ts';

export interface GgufSummary {
  readonly architecture: string;
  readonly name: string | null;
  /** Counted over the tensors. */
  readonly parameters: number;
  readonly quantization: string | null;
  /** What the model was trained for, in tokens. */
  readonly contextLength: number | null;
  readonly license: string | null;
  readonly hasChatTemplate: boolean;
  readonly vocabularySize: number | null;
  readonly embeddingLength: number | null;
  readonly layers: number | null;
  readonly capabilities: readonly Capability[];
  /** Files that the model is split into; 1 for nearly all. */
  readonly parts: number;
  /** Of all of them. */
  readonly sizeBytes: number;
  /** Of the first. */
  readonly modifiedAtMs: number;
}

/** A file of which the header was read. */
export interface ReadGguf {
  readonly path: string;
  readonly header: GgufHeader;
  readonly sizeBytes: number;
  readonly modifiedAtMs: number;
}

/** Enough for a model without a vocabulary; one with a vocabulary takes a second and a third read. */
const FIRST_READ_BYTES = 512 * 1024;
const LABEL_CHARACTERS = 256;

/**
 * Never waits: a pipe, a device or a directory is refused before it is opened. Of a model in parts `path` is
 * the first; the others are read too, for libllama opens them by their names.
 * @throws SvcError MODEL_NOT_FOUND when no such file is there, MODEL_INVALID for all else
 */
export async function inspectGguf(path: string): Promise<GgufSummary> {
  const file = await readGguf(path);
  const parts = partsOf(file.header);
  return parts === 1 ? summarize([file]) : await inspectParts(partPaths(path, parts));
}

/** A model in these files, which are all of it, in their order. @throws as inspectGguf */
export async function inspectParts(paths: readonly string[]): Promise<GgufSummary> {
  const files: ReadGguf[] = [];
  for (const path of paths) files.push(await readGguf(path));
  checkTogether(files);
  return summarize(files);
}

/** What a model that sees needs besides itself. @throws as inspectGguf */
export async function checkProjector(path: string): Promise<void> {
  const { metadata } = await readGgufHeader(path);
  if (text(metadata, 'general.architecture') !== PROJECTOR) throw invalid(path, 'is not a projector');
}

/** @throws as inspectGguf */
export async function readGgufHeader(path: string): Promise<GgufHeader> {
  return (await readGguf(path)).header;
}

async function readGguf(path: string): Promise<ReadGguf> {
  const file = await openModelFile(path);
  try {
    const { size, mtimeMs } = await file.stat();
    return { path, header: await readHeader(file, size, path), sizeBytes: size, modifiedAtMs: mtimeMs };
  } finally {
    await file.close();
  }
}

/** An open regular file. @throws as inspectGguf */
export async function openModelFile(path: string): Promise<FileHandle> {
  try {
    const found = await stat(path);
    if (found.isDirectory()) throw invalid(path, 'is a directory; name the .gguf file in it');
    if (!found.isFile()) throw invalid(path, 'is not a regular file');
    // Should it have become a pipe by now, opening it does not wait for a writer. (Windows has no such flag: 0.)
    const file = await open(path, constants.O_RDONLY | constants.O_NONBLOCK);
    if ((await file.stat()).isFile()) return file;
    await file.close();
    throw invalid(path, 'is not a regular file');
  } catch (error) {
    throw modelFileError(error, path);
  }
}

async function readHeader(file: FileHandle, fileBytes: number, path: string): Promise<GgufHeader> {
  let bytes = Buffer.alloc(0);
  for (let wanted = FIRST_READ_BYTES; ; wanted *= 4) {
    bytes = await readPrefix(file, bytes, Math.min(wanted, fileBytes, GGUF_LIMITS.headerBytes), path);
    const header = parseGgufHeader(bytes, fileBytes, path);
    if (header !== 'more') return header;
  }
}

/** The file's first `length` bytes, of which `known` are there already. */
async function readPrefix(file: FileHandle, known: Buffer, length: number, path: string): Promise<Buffer<ArrayBuffer>> {
  const bytes = Buffer.allocUnsafe(length);
  known.copy(bytes);
  for (let end = known.length; end < length;) {
    const { bytesRead } = await file.read(bytes, end, length - end, end).catch((error: unknown) => {
      throw modelFileError(error, path);
    });
    if (bytesRead === 0) throw invalid(path, 'became shorter while it was read');
    end += bytesRead;
  }
  return bytes;
}

/** How many files the model is in. One that was joined from parts says 0. */
export function partsOf({ metadata }: GgufHeader): number {
  return Math.max(integer(metadata, 'split.count') ?? 1, 1);
}

/** Where libllama looks for the parts. */
function partPaths(first: string, parts: number): string[] {
  const paths = partsBeside(first, parts);
  if (paths[0] === first) return paths;
  throw new SvcError('MODEL_INVALID', `${first} is one of the ${parts} parts of a model`, {
    hint: `name the first of them, as they came: ${partName('…', 0, parts)}`,
  });
}

function checkTogether(files: readonly ReadGguf[]): void {
  const names = new Set<string>();
  for (const [index, { path, header }] of files.entries()) {
    const number = integer(header.metadata, 'split.no') ?? 0;
    const parts = partsOf(header);
    if (parts !== files.length || number !== index) {
      throw invalid(
        path,
        `says that it is part ${number + 1} of ${parts}, and stands as ${index + 1} of ${files.length}`,
      );
    }
    for (const { name } of header.tensors) {
      if (names.has(name)) throw invalid(path, `has a tensor that another part has too: ${quoted(name)}`);
      names.add(name);
    }
  }
  for (const { path, header } of files) {
    const tensors = integer(header.metadata, 'split.tensors.count');
    if (tensors === null || files.length === 1 || tensors === names.size) continue;
    throw invalid(path, `is of a model of ${tensors} tensors, and its parts have ${names.size}`);
  }
}

/** Pure. What the first file says is said of all. @throws SvcError MODEL_INVALID */
export function summarize(files: readonly ReadGguf[]): GgufSummary {
  const [first] = files;
  if (first === undefined) throw new Error('a model without files');
  const { path, modifiedAtMs } = first;
  const { metadata } = first.header;
  const tensors = files.flatMap(({ header }) => header.tensors);
  const architecture = text(metadata, 'general.architecture');
  if (architecture === null) throw invalid(path, 'does not say which architecture it is (general.architecture)');
  if (architecture === PROJECTOR) {
    throw new SvcError('MODEL_INVALID', `${path} is a projector, and not the model that it is for`, {
      hint: 'name the model: its file lies beside this one, without mmproj in its name',
    });
  }
  if (tensors.length === 0) throw invalid(path, 'holds a vocabulary and no weights');
  const template = text(metadata, 'tokenizer.chat_template');
  return {
    architecture,
    name: label(metadata, 'general.name'),
    parameters: tensors.reduce((sum, { shape }) => sum + shape.reduce((product, length) => product * length, 1), 0),
    quantization: quantizationOf(metadata, tensors),
    contextLength: integer(metadata, `${architecture}.context_length`),
    license: label(metadata, 'general.license'),
    hasChatTemplate: template !== null,
    vocabularySize: array(metadata, 'tokenizer.ggml.tokens')?.count ?? integer(metadata, `${architecture}.vocab_size`),
    embeddingLength: integer(metadata, `${architecture}.embedding_length`),
    layers: integer(metadata, `${architecture}.block_count`),
    capabilities: capabilitiesOf(metadata, architecture, template),
    parts: files.length,
    sizeBytes: files.reduce((sum, { sizeBytes }) => sum + sizeBytes, 0),
    modifiedAtMs,
  };
}

/** As the file says; for a file that does not, the type that most of its bytes are stored in. */
function quantizationOf(metadata: ReadonlyMap<string, GgufEntry>, tensors: readonly GgufTensor[]): string | null {
  const stated = FILE_TYPES.get(integer(metadata, 'general.file_type') ?? -1);
  if (stated !== undefined) return stated;
  const bytesOf = new Map<string, number>();
  for (const { type, bytes } of tensors) bytesOf.set(type.name, (bytesOf.get(type.name) ?? 0) + bytes);
  return [...bytesOf].sort(([, a], [, b]) => b - a)[0]?.[0] ?? null;
}

/**
 * As the engine has it: a file that names how to pool makes embeddings, or scores where it pools by rank. An
 * encoder (it attends both ways) that names nothing has no use here; all else continues text.
 */
function capabilitiesOf(
  metadata: ReadonlyMap<string, GgufEntry>,
  architecture: string,
  template: string | null,
): Capability[] {
  const [MEAN, LAST, RANK] = [1, 3, 4];
  const pooling = integer(metadata, `${architecture}.pooling_type`) ?? 0;
  if (pooling === RANK) return ['rerank'];
  if (pooling >= MEAN && pooling <= LAST) return ['embedding'];
  if (metadata.get(`${architecture}.attention.causal`)?.value === false) return [];
  if (template === null) return ['completion'];
  return /\btools\b/.test(template) ? ['chat', 'completion', 'tools'] : ['chat', 'completion'];
}

function text(metadata: ReadonlyMap<string, GgufEntry>, key: string): string | null {
  const value = metadata.get(key)?.value;
  return typeof value === 'string' && value !== '' ? value : null;
}

/** For a list or a line: models say much in these. */
function label(metadata: ReadonlyMap<string, GgufEntry>, key: string): string | null {
  return (
    text(metadata, key)
      ?.slice(0, LABEL_CHARACTERS)
      .replace(/\p{Cc}/gu, ' ') ?? null
  );
}

function integer(metadata: ReadonlyMap<string, GgufEntry>, key: string): number | null {
  const value = metadata.get(key)?.value;
  return typeof value === 'number' && Number.isInteger(value) && value >= 0 ? value : null;
}

function array(metadata: ReadonlyMap<string, GgufEntry>, key: string): GgufArray | null {
  const value = metadata.get(key)?.value;
  return typeof value === 'object' ? value : null;
}

function invalid(path: string, what: string, cause?: unknown): SvcError {
  return new SvcError('MODEL_INVALID', `${path} ${what}`, { cause });
}

/** Whatever reading the file `path` threw, as one of ours. */
export function modelFileError(error: unknown, path: string): SvcError {
  if (error instanceof SvcError) return error;
  const code = (error as NodeJS.ErrnoException).code;
  switch (code) {
    case 'ENOENT':
    case 'ENOTDIR':
    case 'ENAMETOOLONG':
    case 'ERR_INVALID_ARG_VALUE':
      return new SvcError('MODEL_NOT_FOUND', `there is no file ${path}`, { cause: error });
    case 'EACCES':
    case 'EPERM':
      return invalid(path, 'cannot be read: permission denied', error);
    case undefined:
      return SvcError.from(error);
    default:
      return invalid(path, `cannot be read (${code})`, error);
  }
}
