/**
 * Makes a smaller (quantised) copy of a model in the store.
 *
 * The caller passes the quantizer: libllama, in a process of its own. It runs twice, the first time only for the size,
 * so that a full disk is reported within seconds and not after an hour. The new file is read by our own parser and
 * compared with the request before it gets a name in the store. Until then it is an unfinished file, which is deleted
 * after any error.
 */
import { open, rm, stat } from 'node:fs/promises';
import { dirname } from 'node:path';
import { SvcError } from '../../protocol/errors.ts';
import type { QuantizeEvent, QuantizeWishes } from '../../protocol/model/quantize.ts';
import type { ModelRecord } from '../../protocol/records.ts';
import { suggest } from '../../protocol/suggest.ts';
import type { FetchedFile, FetchedModel } from './adopted.ts';
import { copyWithDigest, digestOf, DigestsOnce } from './digest.ts';
import { askForSpace } from './free-space.ts';
import { FILE_TYPES } from '../gguf/ggml-types.ts';
import { checkProjector, inspectGguf, readGgufHeader, type GgufSummary } from '../gguf/gguf.ts';
import type { GgufTensor } from '../gguf/gguf-values.ts';
import { modelIdFor } from './model-id.ts';
import { filesOfModel } from '../gguf/parts.ts';
import { progressReport } from '../../files/rate.ts';
import { cannotWrite } from './registry.ts';
import type { ModelStore } from './store.ts';

/** Resolves with the bytes of the new weights. If aborted, rejects with `signal.reason` once writing has ended. */
export type Quantizer = (options: {
  readonly input: string;
  readonly output: string;
  readonly file_type: number;
  readonly allow_requantize: boolean;
  readonly dry_run: boolean;
  readonly signal: AbortSignal;
  onTensor?(name: string): void;
}) => Promise<number>;

const SPACE_HINT = 'free disk space, choose a smaller type, or set models.dir to another disk';

/** Types that libllama makes only with an importance matrix, which no model file has. */
const NEED_STATISTICS = ['IQ1_S', 'IQ1_M', 'IQ2_XXS', 'IQ2_XS', 'IQ2_S', 'IQ2_M', 'Q2_K_S', 'IQ3_XXS', 'IQ3_XS'];
/** Types for mixtures of experts, for one vendor's hardware, or for models trained in them. */
const SPECIAL = ['MXFP4', 'NVFP4', 'Q1_0', 'Q2_0'];

/** Types that can be made, by name, with their `general.file_type`. */
export const QUANTIZE_TYPES: ReadonlyMap<string, number> = new Map(
  Array.from(FILE_TYPES, ([number, name]) => [name, number] as const).filter(
    ([name]) => !NEED_STATISTICS.includes(name) && !SPECIAL.includes(name),
  ),
);

/**
 * Quantises a model, named as for ModelStore.find; returns the new model's record. Aborting leaves no file behind.
 * @throws SvcError INVALID_REQUEST, MODEL_NOT_FOUND, MODEL_INVALID, CANNOT_WRITE, as `quantizer`; `signal.reason`
 */
export async function quantizeModel(
  store: ModelStore,
  request: QuantizeWishes,
  quantizer: Quantizer,
  emit: (event: QuantizeEvent) => void,
  signal: AbortSignal,
): Promise<ModelRecord> {
  const { allow_requantize: isAllowed = false } = request;
  const type = typeNamed(request.type);
  const source = await store.find(request.model);
  const id = request.name ?? nameFor(source, type.name);
  await store.checkName(id);
  const tensors = await tensorsOf(source.path);
  checkSource(source, tensors, type.name, isAllowed);

  const output = await store.unfinished();
  const copy = await store.unfinished();
  try {
    const projector = await takeProjector(store, source, copy, signal);
    const options = {
      input: (await filesOfModel(source.path))[0] ?? source.path,
      output,
      file_type: type.number,
      allow_requantize: isAllowed,
      signal,
    };
    const sourceBytes = sum(tensors);
    const header = source.size_bytes - sourceBytes;
    const expected = header + (await quantizer({ ...options, dry_run: true }));
    await askForSpace(output, expected, SPACE_HINT);
    emit({
      type: 'planned',
      model: id,
      source: source.id,
      quantization: type.name,
      source_bytes: sourceBytes,
      expected_bytes: expected,
    });
    const quantizing = progressOf('quantizing', sourceBytes, emit, signal);
    const bytesOf = new Map(tensors.map(({ name, bytes }) => [name, bytes]));
    let done = 0;
    const onTensor = (name: string): void => quantizing((done += bytesOf.get(name) ?? 0));
    await quantizer({ ...options, dry_run: false, onTensor }).catch(async (error: unknown) => {
      throw await ofDisk(error, output);
    });
    const { size_bytes: sizeBytes } = await check(output, source, type.name);
    const digest = await digestOf(output, progressOf('checking', sizeBytes, emit, signal));
    signal.throwIfAborted();
    const model = await store.adopt(newModel(source, id, { digest, sizeBytes, path: output }, projector));
    emit({ type: 'quantized', model });
    return model;
  } finally {
    for (const file of [output, copy]) await rm(file, { force: true });
  }
}

function typeNamed(typed: string): { readonly name: string; readonly number: number } {
  const name = typed.toUpperCase();
  const number = QUANTIZE_TYPES.get(name);
  if (number !== undefined) return { name, number };
  const known = [...QUANTIZE_TYPES.keys()];
  const likely = suggest(name, known);
  const why = NEED_STATISTICS.includes(name)
    ? `${name} cannot be made from a model file alone: it needs an importance matrix`
    : `there is no type ${JSON.stringify(typed.slice(0, 40))}`;
  throw new SvcError('INVALID_REQUEST', why, {
    hint: `${likely === undefined || likely === name ? '' : `did you mean ${likely}? `}There are ${known.join(', ')}`,
    param: 'type',
  });
}

/** Makes an id from the source's name and the type: `owner/Tiny-GGUF:F16` and Q4_K_M make `Tiny-GGUF-F16-q4_k_m`. */
function nameFor({ id, path }: ModelRecord, type: string): string {
  const name = (id.startsWith('file:') ? path : id).split('/').at(-1) ?? id;
  return modelIdFor(`${name.replace(/\.gguf$/i, '')}-${type.toLowerCase()}.gguf`, new Set());
}

async function tensorsOf(path: string): Promise<GgufTensor[]> {
  const tensors: GgufTensor[] = [];
  for (const file of await filesOfModel(path)) tensors.push(...(await readGgufHeader(file)).tensors);
  return tensors;
}

function checkSource(source: ModelRecord, tensors: readonly GgufTensor[], type: string, isAllowed: boolean): void {
  if (source.quantization === type) {
    throw new SvcError('INVALID_REQUEST', `${source.id} is ${type} already`, { param: 'type' });
  }
  if (isAllowed || !tensors.some((tensor) => tensor.type.blockLength > 1)) return;
  throw new SvcError(
    'INVALID_REQUEST',
    `${source.id} is quantised already (${source.quantization ?? 'several types'}): ${type} would lose quality twice`,
    {
      hint: 'use the original model in F16 or BF16, or allow it: --allow-requantize, over HTTP allow_requantize',
      param: 'model',
    },
  );
}

/** Syncs the new file to disk and compares it with the request. @throws SvcError MODEL_INVALID */
async function check(output: string, source: ModelRecord, type: string): Promise<GgufSummary> {
  const file = await open(output, 'r+');
  await file.sync().finally(() => file.close());
  const made = await inspectGguf(output);
  const [is, shouldBe] = [made, source].map(({ architecture, parameters }) => `${architecture} ${parameters}`);
  if (is === shouldBe && made.quantization === type) return made;
  throw new SvcError(
    'MODEL_INVALID',
    `the file that libllama wrote is not ${source.id} as ${type}: ${is} ${made.quantization}`,
  );
}

/** Converts a write error to CANNOT_WRITE. libllama reports all file errors as a failed iostream. */
async function ofDisk(error: unknown, output: string): Promise<unknown> {
  if (!(error instanceof SvcError) || !/iostream|basic_ios/.test(error.message)) return error;
  const written = await stat(output).catch(() => null);
  return new SvcError('CANNOT_WRITE', `writing the new file failed after ${written?.size ?? 0} bytes`, {
    hint: 'check whether the disk is full',
    cause: error,
  });
}

/** Returns a function that emits progress, or throws `signal.reason` once aborted. */
function progressOf(
  stage: 'quantizing' | 'checking',
  total: number,
  emit: (event: QuantizeEvent) => void,
  signal: AbortSignal,
): (done: number) => void {
  const report = progressReport(total, (progress) => emit({ type: 'progress', stage, ...progress }));
  return (done) => {
    signal.throwIfAborted();
    report(done, done >= total);
  };
}

function sum(tensors: readonly GgufTensor[]): number {
  return tensors.reduce((total, { bytes }) => total + bytes, 0);
}

/** The copy never replaces a model, not even one that was added meanwhile. */
function newModel(source: ModelRecord, id: string, weights: FetchedFile, projector: FetchedFile | null): FetchedModel {
  return {
    id,
    isIdFixed: true,
    replaces: () => false,
    aliases: [],
    source: `quantized:${source.id}`,
    license: source.license,
    weights: [weights],
    projector,
  };
}

/**
 * Returns the source's projector, which is copied to `copy` unless the store has it.
 * @throws SvcError MODEL_NOT_FOUND, MODEL_INVALID, CANNOT_WRITE; `signal.reason`
 */
async function takeProjector(
  store: ModelStore,
  { id, projector }: ModelRecord,
  copy: string,
  signal: AbortSignal,
): Promise<FetchedFile | null> {
  if (projector === undefined) return null;
  const { path, digest, size_bytes: sizeBytes } = projector;
  await checkProjector(path);
  if (digest !== null && (await store.held([{ digest, sizeBytes }], new DigestsOnce(signal)))[0] === true)
    return { digest, sizeBytes, path: null };
  await askForSpace(copy, sizeBytes, SPACE_HINT);
  const copied = await copyWithDigest(path, copy, () => signal.throwIfAborted()).catch((error: unknown) => {
    throw cannotWrite(error, dirname(copy));
  });
  if (digest !== null && copied !== digest) {
    throw new SvcError('MODEL_INVALID', `${path} has changed since it was added (SHA-256 mismatch)`, {
      hint: `restore that file, or remove ${id} and add it again`,
    });
  }
  return { digest: copied, sizeBytes: (await stat(copy)).size, path: copy };
}
