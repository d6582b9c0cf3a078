/**
 * The pipe between the daemon and an engine process; both sides use this file. messages.ts has the messages.
 *
 *   daemon  ── estimate · load · generate · embed · rerank · tokenize · detokenize ────────►  engine process
 *              cancel · pause · resume · grant_cells · prefix_bytes · close
 *           ◄── estimated · progress · loaded · failed · accepted · wants_cells · vectors ──
 *               tokens · step · stats · devices · log
 *
 * The pipe is file descriptor 3 of the child, a duplex stream. A frame is a length (unsigned 32 bits, little-endian)
 * and that many bytes of JSON, an object with a `type`. In a `vectors` frame a zero byte, which JSON never contains,
 * ends the JSON, and the numbers follow in native byte order. The first message to a child is `load`, `estimate`,
 * `probe`, `quantize` or `try_sandbox`; after any number of estimates a `load` may follow. The child lives until
 * `close` or until the pipe ends.
 *
 * A local pipe does not lose or corrupt bytes. A frame that is too long, is not JSON, or has an unknown type or an
 * invalid field (frame-checks.ts) therefore means that one side's memory is corrupt, and the next frame boundary is
 * lost. The decoder throws, and the daemon handles the engine as crashed. The error contains nothing of the frame,
 * because a frame may contain user text. What an engine sends is measured before it is parsed: 64 MiB of empty lists
 * would take gigabytes, and block the daemon for half a minute.
 *
 * Back-pressure in both directions: the engine is held (computes no step) while the daemon does not read; a generation
 * is paused while its consumer does not read; the daemon refuses requests with BUSY while the engine does not read.
 */
import { JsonGauge, MAX_DEPTH } from '../files/json-gauge.ts';
import { isFromEngine, MOST_TOKENS } from './frame-checks.ts';
import type { FromEngine, ToEngine } from './messages.ts';

/** A request body is at most LIMITS.bodyBytes of JSON, and a frame with it is hardly longer. */
export const MAX_FRAME_BYTES = 64 * 1024 * 1024;

const HEADER_BYTES = 4;
/** A shorter frame is not measured: whatever it holds is parsed in milliseconds. */
const MEASURED_BYTES = 64 * 1024;
/** Lists, objects and keys of a frame: those of 1,500 tokens with 20 alternatives each. */
const MOST_STRUCTURES = 200_000;
/** All tokens of the longest text, and a piece for each. */
const MOST_VALUES = 2 * MOST_TOKENS + MOST_STRUCTURES;

const names = <Type extends string>(table: Record<Type, true>): ReadonlySet<string> => new Set(Object.keys(table));

export const TO_ENGINE = names<ToEngine['type']>({
  load: true,
  estimate: true,
  probe: true,
  quantize: true,
  try_sandbox: true,
  generate: true,
  embed: true,
  rerank: true,
  tokenize: true,
  detokenize: true,
  cancel: true,
  pause: true,
  resume: true,
  grant_cells: true,
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
  wants_cells: true,
  vectors: true,
  tokens: true,
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

/** Throws FrameError if the message exceeds MAX_FRAME_BYTES. */
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

/** Decodes the bytes of one direction into messages. Must not be used after it has thrown. */
export class FrameDecoder<Message extends ToEngine | FromEngine> {
  readonly #types: ReadonlySet<string>;
  #chunks: Buffer[] = [];
  #held = 0;
  /** Bytes needed before decoding can continue: a header, or a header and its body. */
  #wanted = HEADER_BYTES;

  /** `types`: TO_ENGINE or FROM_ENGINE, the one that this side reads. */
  constructor(types: ReadonlySet<string>) {
    this.#types = types;
  }

  /** Yields the messages that `chunk` completes, decoded lazily. Throws FrameError. */
  *decode(chunk: Buffer): Generator<Message, void, undefined> {
    this.#chunks.push(chunk);
    this.#held += chunk.length;
    while (this.#held >= this.#wanted) {
      // Joined only when a frame is complete, so that a long frame is not copied with every chunk.
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
    if (this.#types === FROM_ENGINE && json.length > MEASURED_BYTES) checkCost(json);
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

/** Throws FrameError for JSON that costs the parser far more than its length. */
function checkCost(json: Buffer): void {
  const gauge = new JsonGauge();
  for (let at = 0; at < json.length; at += MEASURED_BYTES) {
    const depth = gauge.measure(json.subarray(at, at + MEASURED_BYTES));
    if (depth > MAX_DEPTH || gauge.structures > MOST_STRUCTURES || gauge.values > MOST_VALUES) {
      throw new FrameError('a frame has too many values');
    }
  }
}

/** Copies the numbers: they must be aligned, and the chunk need not be kept. */
function floats(bytes: Buffer): Float32Array {
  const size = Float32Array.BYTES_PER_ELEMENT;
  if (bytes.length === 0 || bytes.length % size !== 0) throw new FrameError('a vectors frame holds no whole numbers');
  const numbers = new Float32Array(bytes.length / size);
  new Uint8Array(numbers.buffer).set(bytes);
  return numbers;
}
