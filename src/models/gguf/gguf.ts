/** Reads the description of a model from its files, without the weights. */
import { constants } from 'node:fs';
import { open, stat, type FileHandle } from 'node:fs/promises';
import { FILE_TYPES } from './ggml-types.ts';
import { PROJECTOR } from './gguf-checks.ts';
import { quoted } from './gguf-cursor.ts';
import { parseGgufHeader } from './gguf-header.ts';
import type { GgufEntry, GgufHeader, GgufTensor } from './gguf-values.ts';
import { GGUF_LIMITS } from './gguf-limits.ts';
import { partName, partsBeside } from './part-names.ts';
import { SvcError } from '../../protocol/errors.ts';
import type { Capability } from '../../protocol/records.ts';

/** What the files of a model say of it, by the names of the registry and of a model's record. */
export interface GgufSummary {
  readonly architecture: string;
  /** Sum over all tensors. */
  readonly parameters: number;
  readonly quantization: string | null;
  /** Context length that the model was trained for, in tokens. */
  readonly context_length: number | null;
  readonly license: string | null;
  readonly capabilities: Capability[];
  /** Sum over all files. */
  readonly size_bytes: number;
  /** Modification time of the first file. */
  readonly modified_at_ms: number;
}

/** A file whose header was read. */
export interface ReadGguf {
  readonly path: string;
  readonly header: GgufHeader;
  readonly sizeBytes: number;
  readonly modifiedAtMs: number;
}

/** Enough for a model without a vocabulary; a model with one takes a second and a third read. */
const FIRST_READ_BYTES = 512 * 1024;
/** Value of `general.type`. */
export const ADAPTER = 'adapter';
const LABEL_CHARACTERS = 256;

/**
 * Reads and checks a model. Never blocks: a pipe, a device or a directory is rejected before it is opened. For a model
 * in parts `path` is the first part; the others are read, too, since libllama opens them by their names.
 * @throws SvcError MODEL_NOT_FOUND when the file does not exist, MODEL_INVALID for all else
 */
export async function inspectGguf(path: string): Promise<GgufSummary> {
  const file = await readGguf(path);
  const parts = partsOf(file.header);
  return parts === 1 ? summarize([file]) : await inspectParts(partPaths(path, parts));
}

/** Reads a model from all its files, in their order. @throws as inspectGguf */
export async function inspectParts(paths: readonly string[]): Promise<GgufSummary> {
  const files: ReadGguf[] = [];
  for (const path of paths) files.push(await readGguf(path));
  checkTogether(files);
  return summarize(files);
}

/** Checks that the file is a projector, which a vision model needs. @throws as inspectGguf */
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

/** Opens a regular file. @throws as inspectGguf */
export async function openModelFile(path: string): Promise<FileHandle> {
  try {
    const found = await stat(path);
    if (found.isDirectory()) throw invalid(path, 'is a directory; name the .gguf file in it');
    if (!found.isFile()) throw invalid(path, 'is not a regular file');
    // If it has become a pipe meanwhile, `open` does not wait for a writer. (Windows has no such flag: 0.)
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

/** Number of files of the model. A model merged from parts has a split.count of 0. */
export function partsOf({ metadata }: GgufHeader): number {
  return Math.max(integer(metadata, 'split.count') ?? 1, 1);
}

/** The paths at which libllama looks for the parts. */
function partPaths(first: string, parts: number): string[] {
  const paths = partsBeside(first, parts);
  if (paths[0] === first) return paths;
  throw new SvcError('MODEL_INVALID', `${first} is one of the ${parts} parts of a model`, {
    hint: `use the first part, under its original name: ${partName('…', 0, parts)}`,
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
        `claims to be part ${number + 1} of ${parts}, but is number ${index + 1} of ${files.length} files`,
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
    throw invalid(path, `belongs to a model of ${tensors} tensors, but all parts together have ${names.size}`);
  }
}

/** Describes the model by the metadata of its first file. Pure. @throws SvcError MODEL_INVALID */
export function summarize(files: readonly ReadGguf[]): GgufSummary {
  const [first] = files;
  if (first === undefined) throw new Error('a model without files');
  const { path, modifiedAtMs } = first;
  const { metadata } = first.header;
  const tensors = files.flatMap(({ header }) => header.tensors);
  const architecture = text(metadata, 'general.architecture');
  if (architecture === null) throw invalid(path, 'has no architecture (general.architecture)');
  if (architecture === PROJECTOR) {
    throw new SvcError('MODEL_INVALID', `${path} is a projector, not a model`, {
      hint: 'use the model file: usually beside this one, without mmproj in its name',
    });
  }
  if (text(metadata, 'general.type') === ADAPTER) {
    throw new SvcError('MODEL_INVALID', `${path} is an adapter, not a model`, {
      hint: `add it to its model: svc model add --adapter-of MODEL ${path}`,
    });
  }
  if (tensors.length === 0) throw invalid(path, 'has a vocabulary but no weights');
  return {
    architecture,
    parameters: tensors.reduce((sum, { shape }) => sum + shape.reduce((product, length) => product * length, 1), 0),
    quantization: quantizationOf(metadata, tensors),
    context_length: integer(metadata, `${architecture}.context_length`),
    license: label(metadata, 'general.license'),
    capabilities: capabilitiesOf(metadata, architecture),
    size_bytes: files.reduce((sum, { sizeBytes }) => sum + sizeBytes, 0),
    modified_at_ms: modifiedAtMs,
  };
}

/** Returns the type that the file states, else the type of most of its bytes. */
function quantizationOf(metadata: ReadonlyMap<string, GgufEntry>, tensors: readonly GgufTensor[]): string | null {
  const stated = FILE_TYPES.get(integer(metadata, 'general.file_type') ?? -1);
  if (stated !== undefined) return stated;
  const bytesOf = new Map<string, number>();
  for (const { type, bytes } of tensors) bytesOf.set(type.name, (bytesOf.get(type.name) ?? 0) + bytes);
  return [...bytesOf].sort(([, a], [, b]) => b - a)[0]?.[0] ?? null;
}

/**
 * Same rules as the engine: a file with a pooling type makes embeddings, or scores if that type is rank. An
 * encoder (bidirectional attention) without a pooling type has no capability; all other models complete text.
 */
function capabilitiesOf(metadata: ReadonlyMap<string, GgufEntry>, architecture: string): Capability[] {
  const [MEAN, LAST, RANK] = [1, 3, 4];
  const pooling = integer(metadata, `${architecture}.pooling_type`) ?? 0;
  if (pooling === RANK) return ['rerank'];
  if (pooling >= MEAN && pooling <= LAST) return ['embedding'];
  if (metadata.get(`${architecture}.attention.causal`)?.value === false) return [];
  return text(metadata, 'tokenizer.chat_template') === null ? ['completion'] : ['chat', 'completion'];
}

function text(metadata: ReadonlyMap<string, GgufEntry>, key: string): string | null {
  const value = metadata.get(key)?.value;
  return typeof value === 'string' && value !== '' ? value : null;
}

/** Returns a value shortened to one line: some models have long texts here. */
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

function invalid(path: string, what: string, cause?: unknown): SvcError {
  return new SvcError('MODEL_INVALID', `${path} ${what}`, { cause });
}

/** Converts an error of reading the file `path` to a SvcError. */
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
