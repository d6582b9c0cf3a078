/**
 * A smaller copy of a model, beside it in the store.
 *
 * Who quantises is handed in: libllama, in a process of its own. It is asked twice, the first time only for the size,
 * so that a disk that is too small is told in seconds and not after an hour. What it made is read by our own reader,
 * held against what was asked for, and gets its name only then; until then, and after whatever went wrong, there is
 * nothing of it but a file without a name, which goes.
 */
import { open, rm, stat } from 'node:fs/promises';
import { SvcError } from '../protocol/errors.ts';
import type { ModelRecord } from '../protocol/records.ts';
import { suggest } from '../protocol/suggest.ts';
import { digestOf } from './digest.ts';
import { askForSpace } from './free-space.ts';
import { FILE_TYPES } from './ggml-types.ts';
import { inspectGguf, readGgufHeader } from './gguf.ts';
import type { GgufTensor } from './gguf-header.ts';
import { modelIdFor } from './model-id.ts';
import { filesOfModel } from './parts.ts';
import { Rate } from './pull/rate.ts';
import type { ModelStore } from './store.ts';

export interface QuantizeRequest {
  /** As ModelStore.find takes it. */
  readonly model: string;
  /** In any case. */
  readonly type: string;
  /** Of the new model. Absent: made from both. */
  readonly name?: string;
  /** Although the weights are quantised already. */
  readonly allowRequantize: boolean;
}

export type QuantizeEvent =
  | {
      readonly type: 'planned';
      readonly model: string;
      readonly source: string;
      readonly quantization: string;
      readonly source_bytes: number;
      /** Of the file that will be made. */
      readonly expected_bytes: number;
    }
  | {
      readonly type: 'progress';
      /** `checking`: the new file is read again, for its digest. */
      readonly stage: 'quantizing' | 'checking';
      /** Of the source's weights; of the new file. */
      readonly done_bytes: number;
      readonly total_bytes: number;
      readonly bytes_per_second: number | null;
    }
  | { readonly type: 'quantized'; readonly model: ModelRecord };

/** Bytes of the new weights. Rejects with `signal.reason` when that is aborted, once nothing writes any more. */
export type Quantizer = (options: {
  readonly input: string;
  readonly output: string;
  readonly fileType: number;
  readonly allowRequantize: boolean;
  readonly dryRun: boolean;
  readonly signal: AbortSignal;
  onTensor?(name: string): void;
}) => Promise<number>;

const PROGRESS_MS = 250;

/** Types that libllama makes only with statistics of what a model computes, which no model file has. */
const NEED_STATISTICS = ['IQ1_S', 'IQ1_M', 'IQ2_XXS', 'IQ2_XS', 'IQ2_S', 'IQ2_M', 'Q2_K_S', 'IQ3_XXS', 'IQ3_XS'];
/** Of mixtures of experts, of one vendor's hardware, or of models that were trained in them. */
const SPECIAL = ['MXFP4', 'NVFP4', 'Q1_0', 'Q2_0'];

/** `general.file_type` of what can be made, by name. */
export const QUANTIZE_TYPES: ReadonlyMap<string, number> = new Map(
  Array.from(FILE_TYPES, ([number, name]) => [name, number] as const).filter(
    ([name]) => !NEED_STATISTICS.includes(name) && !SPECIAL.includes(name),
  ),
);

/**
 * The new model's record. Aborting leaves nothing behind.
 * @throws SvcError INVALID_REQUEST, MODEL_NOT_FOUND, MODEL_INVALID, CANNOT_WRITE, what `quantizer` throws; `signal.reason`
 */
export async function quantizeModel(
  store: ModelStore,
  request: QuantizeRequest,
  quantizer: Quantizer,
  emit: (event: QuantizeEvent) => void,
  signal: AbortSignal,
): Promise<ModelRecord> {
  const type = typeNamed(request.type);
  const source = await store.find(request.model);
  const id = request.name ?? nameFor(source, type.name);
  await store.checkName(id);
  const tensors = await tensorsOf(source.path);
  checkSource(source, tensors, type.name, request.allowRequantize);

  const output = await store.unfinished();
  const options = {
    input: (await filesOfModel(source.path))[0] ?? source.path,
    output,
    fileType: type.number,
    allowRequantize: request.allowRequantize,
    signal,
  };
  const sourceBytes = sum(tensors);
  const header = source.size_bytes - sourceBytes;
  const expected = header + (await quantizer({ ...options, dryRun: true }));
  await askForSpace(output, expected, 'make room, take a smaller type, or set models.dir to another disk');
  emit({
    type: 'planned',
    model: id,
    source: source.id,
    quantization: type.name,
    source_bytes: sourceBytes,
    expected_bytes: expected,
  });
  try {
    const quantizing = progressOf('quantizing', sourceBytes, emit, signal);
    const bytesOf = new Map(tensors.map(({ name, bytes }) => [name, bytes]));
    let done = 0;
    const onTensor = (name: string): void => quantizing((done += bytesOf.get(name) ?? 0));
    await quantizer({ ...options, dryRun: false, onTensor });
    const { sizeBytes } = await check(output, source, type.name);
    const digest = await digestOf(output, progressOf('checking', sizeBytes, emit, signal));
    signal.throwIfAborted();
    const { projector } = source;
    const model = await store.adopt({
      id,
      aliases: [],
      source: `quantized:${source.id}`,
      license: source.license,
      weights: [{ digest, sizeBytes, path: output }],
      projector:
        projector === undefined ? null : { digest: projector.digest, sizeBytes: projector.size_bytes, path: null },
    });
    emit({ type: 'quantized', model });
    return model;
  } catch (error) {
    throw await ofDisk(error, output);
  } finally {
    await rm(output, { force: true });
  }
}

function typeNamed(typed: string): { readonly name: string; readonly number: number } {
  const name = typed.toUpperCase();
  const number = QUANTIZE_TYPES.get(name);
  if (number !== undefined) return { name, number };
  const known = [...QUANTIZE_TYPES.keys()];
  const likely = suggest(name, known);
  const why = NEED_STATISTICS.includes(name)
    ? `${name} cannot be made from a model file alone: it needs statistics of what the model computes`
    : `there is no type ${JSON.stringify(typed.slice(0, 40))}`;
  throw new SvcError('INVALID_REQUEST', why, {
    hint: `${likely === undefined || likely === name ? '' : `did you mean ${likely}? `}There are ${known.join(', ')}`,
    param: 'type',
  });
}

/** Of the source's own name and the type: `owner/Tiny-GGUF:F16` and Q4_K_M make `Tiny-GGUF-F16-q4_k_m`. */
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
    `${source.id} is quantised already (${source.quantization ?? 'of several types'}): what that has cost comes on top of what ${type} costs`,
    { hint: 'begin with the original, F16 or BF16; or say that you want it: --allow-requantize', param: 'model' },
  );
}

/** On disk for good, and what was asked for. @throws SvcError MODEL_INVALID */
async function check(output: string, source: ModelRecord, type: string): Promise<{ sizeBytes: number }> {
  const file = await open(output, 'r+');
  await file.sync().finally(() => file.close());
  const made = await inspectGguf(output);
  const [is, shouldBe] = [made, source].map(({ architecture, parameters }) => `${architecture} ${parameters}`);
  if (is === shouldBe && made.quantization === type) return made;
  throw new SvcError('MODEL_INVALID', `what libllama made is not ${source.id} as ${type}: ${is} ${made.quantization}`);
}

/** libllama has one word for whatever goes wrong with a file. */
async function ofDisk(error: unknown, output: string): Promise<unknown> {
  if (!(error instanceof SvcError) || !/iostream|basic_ios/.test(error.message)) return error;
  const size = await stat(output).then(
    (found) => found.size,
    () => 0,
  );
  return new SvcError('CANNOT_WRITE', `the new file could not be written beyond ${size} bytes`, {
    hint: 'look whether the disk is full',
    cause: error,
  });
}

/** Throws `signal.reason` instead of telling. */
function progressOf(
  stage: 'quantizing' | 'checking',
  total: number,
  emit: (event: QuantizeEvent) => void,
  signal: AbortSignal,
): (done: number) => void {
  const rate = new Rate();
  let toldAt = 0;
  rate.sample(0);
  return (done) => {
    signal.throwIfAborted();
    if (done < total && performance.now() - toldAt < PROGRESS_MS) return;
    toldAt = performance.now();
    rate.sample(done);
    emit({
      type: 'progress',
      stage,
      done_bytes: done,
      total_bytes: total,
      bytes_per_second: rate.bytesPerSecond,
    });
  };
}

function sum(tensors: readonly GgufTensor[]): number {
  return tensors.reduce((total, { bytes }) => total + bytes, 0);
}
