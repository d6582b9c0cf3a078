/**
 * What the daemon and an engine process say to each other: the one definition, used by both.
 *
 *   daemon  ── estimate · load · generate · embed · cancel · pause · resume · prefix_bytes · close ──►  engine process
 *           ◄── estimated · progress · loaded · failed · accepted · vectors · step · stats · devices · log ──
 *
 * The pipe is file descriptor 3 of the child, one duplex stream for both directions. A frame is a
 * length (unsigned 32 bits, little-endian, the bytes that follow) and that many bytes of JSON, an
 * object with a `type`. In a `vectors` frame a zero byte, which JSON never holds, ends the JSON, and
 * the numbers follow as they lie in memory. The first message to a child is `load`, `estimate`,
 * `probe`, `quantize` or `try_sandbox` and says what it is for; after any number of estimates a `load` may follow. It lives until
 * `close`, or until the pipe ends: whoever loses the other side ends.
 *
 * A pipe between two processes of one program does not lose or garble bytes by itself. A frame that
 * is too long, is not JSON, has no known type or a field of another shape (frame-checks.ts) therefore means that the memory of one side is no
 * longer to be trusted, and there is no way to find the next boundary: the decoder throws, and the
 * daemon ends that engine as it would after a crash. Nothing of the frame goes into the error,
 * because a frame may hold what a person wrote.
 *
 * Both directions are bounded. The engine is held (no step is computed) while the daemon does not
 * read; a generation is paused while its own consumer does not; the daemon refuses requests with
 * BUSY while an engine does not read.
 */
import type { SandboxReport } from '../process/addon.ts';
import type { ErrorRecord } from '../protocol/errors.ts';
import { isFromEngine } from './frame-checks.ts';
import type {
  NativeDevice,
  NativeEmbedRequest,
  NativeLoadOptions,
  NativeMemoryEstimates,
  NativeModelInfo,
  NativeOutput,
  NativeQuantizeOptions,
  NativeRequest,
  NativeStats,
} from './addon.ts';

/** A request is at most LIMITS.bodyBytes of JSON when it arrives, and hardly longer here. */
export const MAX_FRAME_BYTES = 64 * 1024 * 1024;

const HEADER_BYTES = 4;

/** The engine's own figures of the model. The GGUF's keys stay behind: a chat template alone may be 100 kB. */
export type EngineInfo = Omit<NativeModelInfo, 'metadata'>;

/** Token ids are an Int32Array on the other side only. */
export interface EmbedFrameRequest extends Omit<NativeEmbedRequest, 'inputs'> {
  readonly inputs: readonly (string | readonly number[])[];
}

/** The preparation of requests, which worker threads do: templating, tokenising, compiling grammars. */
export interface SubmitProgress {
  /** Requests prepared, or refused, since the start. */
  readonly done: number;
  /** Id of the request that has been in preparation longest; null: none is. */
  readonly oldest: number | null;
}

export type StepOutput = Omit<NativeOutput, 'embeddings'>;

export type ToEngine =
  /** `model` is for the process title and the log. `parentPid`: die with it. */
  | {
      readonly type: 'load';
      readonly model: string;
      readonly path: string;
      readonly options: NativeLoadOptions;
      readonly parentPid: number;
    }
  /** What a load with these options would take at each context length; 0: the default one. */
  | {
      readonly type: 'estimate';
      readonly model: string;
      readonly path: string;
      readonly options: NativeLoadOptions;
      readonly contextLengths: readonly number[];
      readonly parentPid: number;
    }
  | { readonly type: 'probe'; readonly measure: boolean; readonly parentPid: number }
  | { readonly type: 'quantize'; readonly options: NativeQuantizeOptions; readonly parentPid: number }
  /** Enters the sandbox and tries what it forbids. */
  | { readonly type: 'try_sandbox'; readonly parentPid: number }
  | { readonly type: 'generate'; readonly request: NativeRequest }
  | { readonly type: 'embed'; readonly request: EmbedFrameRequest }
  | { readonly type: 'cancel'; readonly id: number }
  | { readonly type: 'pause'; readonly id: number }
  | { readonly type: 'resume'; readonly id: number }
  /** A new bound of the prefix files; 0: no more are written. */
  | { readonly type: 'prefix_bytes'; readonly bytes: number }
  /** Ends whatever runs, frees the model and exits with 0. */
  | { readonly type: 'close' };

export type FromEngine =
  /** The answer to `estimate`: the figures, or why there are none. */
  | { readonly type: 'estimated'; readonly estimates: NativeMemoryEstimates }
  | { readonly type: 'not_estimated'; readonly error: ErrorRecord }
  | { readonly type: 'progress'; readonly fraction: number }
  /** The model is in memory and has produced one token, or one vector, here. */
  | { readonly type: 'loaded'; readonly info: EngineInfo }
  /** It could not be loaded, or quantised; the process exits. */
  | { readonly type: 'failed'; readonly error: ErrorRecord }
  /** The engine took a generation up; its outputs follow. A refused one gets an output with an error instead. */
  | { readonly type: 'accepted'; readonly id: number; readonly inputTokens: number }
  /** Of the inputs of one request after those that came before, one vector behind the other. */
  | { readonly type: 'vectors'; readonly id: number; readonly vectors: Float32Array }
  /** Everything that one step produced, of all generations. */
  | { readonly type: 'step'; readonly outputs: readonly StepOutput[] }
  /** The heartbeat; sent beside it before each end of a generation. `stats` is null until the model is loaded; `privateBytes` (no file backs them) where they are not measured. */
  | {
      readonly type: 'stats';
      readonly stats: NativeStats | null;
      readonly submits: SubmitProgress;
      readonly rssBytes: number;
      readonly privateBytes: number | null;
      /** Processor time of all its threads. */
      readonly cpuMs: number;
    }
  /** As the drivers tell it now; again and again while the model is loaded. */
  | { readonly type: 'devices'; readonly devices: readonly NativeDevice[] }
  | { readonly type: 'log'; readonly level: 'debug' | 'info' | 'warn' | 'error'; readonly text: string }
  /** The answer to `try_sandbox`. */
  | { readonly type: 'sandbox_tried'; readonly report: SandboxReport; readonly attempts: readonly SandboxAttempt[] }
  /** This tensor is done. */
  | { readonly type: 'tensor'; readonly name: string }
  /** All are. `bytes`: of the new weights, as libllama tells it, to a hundredth of a mebibyte. */
  | { readonly type: 'quantized'; readonly bytes: number }
  /** What is known so far, and what is done next; null: that was all. */
  | { readonly type: 'probed'; readonly facts: ProbeFacts; readonly next: string | null };

export interface SandboxAttempt {
  /** `to read a file of others`. */
  readonly what: string;
  /** The errno that it failed with. null: it succeeded. */
  readonly error: string | null;
}

export interface ProbeFacts {
  readonly addon: {
    readonly path: string;
    readonly version: string;
    readonly builtFor: string;
    readonly llamaCpp: string;
    readonly llama: 'prebuilt' | 'source';
  } | null;
  readonly devices: readonly ProbedDevice[];
  readonly cpuFeatures: string | null;
  /** What ggml said as it loaded its backends. */
  readonly log: readonly string[];
  readonly error: ErrorRecord | null;
}

export interface ProbedDevice extends NativeDevice {
  /** Of a real kernel, its result checked. null: not measured. */
  readonly gflops: number | null;
  /** Why the measurement failed. */
  readonly error: string | null;
}

const names = <Type extends string>(table: Record<Type, true>): ReadonlySet<string> => new Set(Object.keys(table));

export const TO_ENGINE = names<ToEngine['type']>({
  load: true,
  estimate: true,
  probe: true,
  quantize: true,
  try_sandbox: true,
  generate: true,
  embed: true,
  cancel: true,
  pause: true,
  resume: true,
  prefix_bytes: true,
  close: true,
});
export const FROM_ENGINE = names<FromEngine['type']>({
  estimated: true,
  not_estimated: true,
  progress: true,
  loaded: true,
  failed: true,
  accepted: true,
  vectors: true,
  step: true,
  stats: true,
  devices: true,
  log: true,
  tensor: true,
  quantized: true,
  sandbox_tried: true,
  probed: true,
});

type VectorsFrame = Extract<FromEngine, { type: 'vectors' }>;

export class FrameError extends Error {}

/** Throws FrameError when the message is longer than a frame may be; nothing has been written then. */
export function encodeFrame(message: ToEngine | FromEngine): Buffer {
  if (message.type === 'vectors') return encodeVectors(message);
  const json = JSON.stringify(message);
  const bytes = Buffer.byteLength(json);
  if (bytes > MAX_FRAME_BYTES) throw new FrameError(`a ${message.type} frame of ${String(bytes)} bytes is too long`);
  const frame = Buffer.allocUnsafe(HEADER_BYTES + bytes);
  frame.writeUInt32LE(bytes, 0);
  frame.write(json, HEADER_BYTES);
  return frame;
}

function encodeVectors({ vectors, ...head }: VectorsFrame): Buffer {
  const json = Buffer.from(`${JSON.stringify(head)}\0`);
  const bytes = json.length + vectors.byteLength;
  if (bytes > MAX_FRAME_BYTES) throw new FrameError(`a vectors frame of ${String(bytes)} bytes is too long`);
  const header = Buffer.allocUnsafe(HEADER_BYTES);
  header.writeUInt32LE(bytes, 0);
  return Buffer.concat([header, json, new Uint8Array(vectors.buffer, vectors.byteOffset, vectors.byteLength)]);
}

/** Turns the bytes of one direction back into messages. Useless after it has thrown. */
export class FrameDecoder<Message extends ToEngine | FromEngine> {
  readonly #types: ReadonlySet<string>;
  #chunks: Buffer[] = [];
  #held = 0;
  /** Bytes that must be held before the next step: a header, or a header and its body. */
  #wanted = HEADER_BYTES;

  /** `types`: TO_ENGINE or FROM_ENGINE, whichever this side reads. */
  constructor(types: ReadonlySet<string>) {
    this.#types = types;
  }

  /** The messages that `chunk` completes, decoded one by one as they are asked for. Throws FrameError. */
  *decode(chunk: Buffer): Generator<Message, void, undefined> {
    this.#chunks.push(chunk);
    this.#held += chunk.length;
    while (this.#held >= this.#wanted) {
      // Joined only when something is complete: a long frame is not copied again with every chunk.
      const bytes = this.#chunks.length === 1 ? (this.#chunks[0] as Buffer) : Buffer.concat(this.#chunks);
      this.#chunks = [bytes];
      const length = bytes.readUInt32LE(0);
      if (length > MAX_FRAME_BYTES) throw new FrameError(`a frame claims ${String(length)} bytes`);
      this.#wanted = HEADER_BYTES + length;
      if (bytes.length < this.#wanted) return;

      const rest = bytes.subarray(this.#wanted);
      const message = this.#parse(bytes.subarray(HEADER_BYTES, this.#wanted));
      this.#chunks = rest.length === 0 ? [] : [rest];
      this.#held = rest.length;
      this.#wanted = HEADER_BYTES;
      yield message;
    }
  }

  #parse(body: Buffer): Message {
    const end = body.indexOf(0);
    const json = end === -1 ? body : body.subarray(0, end);
    let value: unknown;
    try {
      value = JSON.parse(json.toString('utf8'));
    } catch {
      throw new FrameError('a frame is not JSON');
    }
    const message = typeof value === 'object' && value !== null ? value : {};
    const type = 'type' in message ? message.type : undefined;
    if (typeof type !== 'string' || !this.#types.has(type)) throw new FrameError('a frame has no known type');
    if ((type === 'vectors') !== (end !== -1)) throw new FrameError('a frame is not what its type says');
    const whole = { ...message, type, ...(end === -1 ? {} : { vectors: floats(body.subarray(end + 1)) }) };
    if (this.#types === FROM_ENGINE && !isFromEngine(whole)) throw new FrameError(`a ${type} frame has a wrong field`);
    return whole as unknown as Message;
  }
}

/** A copy: numbers must lie at a multiple of their size, and the chunk need not be kept for them. */
function floats(bytes: Buffer): Float32Array {
  const size = Float32Array.BYTES_PER_ELEMENT;
  if (bytes.length === 0 || bytes.length % size !== 0) throw new FrameError('a vectors frame holds no whole numbers');
  const numbers = new Float32Array(bytes.length / size);
  new Uint8Array(numbers.buffer).set(bytes);
  return numbers;
}
