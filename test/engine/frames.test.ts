import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { isFromEngine } from '../../src/engine/frame-checks.ts';
import {
  encodeFrame,
  FrameDecoder,
  FrameError,
  FROM_ENGINE,
  MAX_FRAME_BYTES,
  TO_ENGINE,
} from '../../src/engine/frames.ts';
import { LIMITS } from '../../src/protocol/limits.ts';
import type { EngineInfo, NativeDeviceMemory, NativeStats } from '../../src/engine/addon.ts';
import type { FromEngine, ToEngine } from '../../src/engine/messages.ts';
import { cpuMs } from '../support/cpu-time.ts';

const messages: FromEngine[] = [
  { type: 'progress', fraction: 0.5 },
  { type: 'accepted', id: 7, inputTokens: 12 },
  { type: 'step', outputs: [{ id: 7, text: 'Zürich, 東京, 🦙\n\u0000"' }] },
  { type: 'vectors', id: 7, vectors: Float32Array.of(0, -1.5, Math.fround(1e-30), 0.1) },
  { type: 'log', level: 'warn', text: '' },
  { type: 'stats', stats: null, submits: { done: 0, oldest: null }, rssBytes: 1, privateBytes: null, cpuMs: 1 },
];
const stream = Buffer.concat(messages.map(encodeFrame));
const decoder = () => new FrameDecoder<FromEngine>(FROM_ENGINE);

function decodeAll(chunks: readonly Buffer[]): FromEngine[] {
  const frames = decoder();
  return chunks.flatMap((chunk) => [...frames.decode(chunk)]);
}

test('a frame is a little-endian length followed by JSON', () => {
  const frame = encodeFrame({ type: 'close' });
  assert.is(frame.readUInt32LE(0), frame.length - 4);
  assert.equal(JSON.parse(frame.subarray(4).toString()), { type: 'close' });
});

test('several frames in one chunk are decoded', () => {
  assert.equal(decodeAll([stream]), messages);
});

test('a frame split in two at any byte is decoded', () => {
  for (let at = 0; at <= stream.length; at++) {
    assert.equal(decodeAll([stream.subarray(0, at), stream.subarray(at)]), messages, `split at ${String(at)}`);
  }
});

test('frames that arrive byte by byte are decoded', () => {
  assert.equal(decodeAll(Array.from(stream, (byte) => Buffer.from([byte]))), messages);
});

test('each message is delivered with its last byte', () => {
  const frames = decoder();
  const frame = encodeFrame({ type: 'progress', fraction: 1 });
  assert.equal([...frames.decode(frame.subarray(0, -1))], []);
  assert.equal([...frames.decode(frame.subarray(-1))], [{ type: 'progress', fraction: 1 }]);
});

function stats(): NativeStats {
  const steps = { count: 1, rows: 1, prompt_tokens: 1, cached_tokens: 1, generated_tokens: 1, drafted_tokens: 1 };
  const times = { accepted_tokens: 1, preemptions: 1, evicted_cells: 1, predicted_ms: 1, spent_ms: 1, threads: 1 };
  return {
    active: 1,
    waiting: 1,
    kv_cells_used: 1,
    kv_cells_cached: 1,
    kv_cells_total: 1,
    kv_tokens_swapped: 1,
    steps: { ...steps, ...times },
    last_step: { rows: 1, prompt_rows: 1, predicted_ms: 1, spent_ms: 1 },
    tokens_per_second: 1,
    step_age_ms: 1,
    operations: 1,
  };
}

function memory(): NativeDeviceMemory {
  const bytes = { weights_bytes: 1, mapped_bytes: 1, cache_bytes: 1, compute_bytes: 1, free_bytes: 1, total_bytes: 1 };
  return { name: 'CPU', is_host: true, ...bytes };
}

function info(): EngineInfo {
  const sizes = { trained_context_length: 1, context_length: 1, vocabulary: 1 };
  const kinds = { calls_tools: true, thinks: true, makes_embeddings: false, ranks: false };
  return {
    ...sizes,
    embedding_length: 1,
    layers: 1,
    ...kinds,
    draft_refusal: 'x',
    sees: true,
    hears: true,
    projector_refusal: 'x',
    adapters: [{ id: 'x', error: 'x' }],
    device: 'CPU',
  };
}

/** One message of each type, with all optional fields. */
const whole: readonly FromEngine[] = [
  ...messages,
  {
    type: 'step',
    outputs: [
      {
        id: 1,
        text: 'x',
        logprobs: [{ bytes: 'x', logprob: -1, top: [{ bytes: 'y', logprob: -2 }] }],
        finish: {
          reason: 'stop',
          usage: { input_tokens: 1, output_tokens: 1, cached_tokens: 0, truncated_tokens: 0 },
          timings: { started_ms: 1, first_token_ms: 1, finished_ms: 1 },
        },
        error: { code: 'BUSY', message: 'm', param: 'p' },
      },
    ],
  },
  {
    type: 'devices',
    devices: [{ name: 'a', description: 'b', backend: 'c', type: 'gpu', memory_total_bytes: 1, memory_free_bytes: 1 }],
  },
  {
    type: 'step',
    outputs: [
      {
        id: 1,
        text: '',
        reasoning: 'x',
        tool_calls: [{ index: 0, id: 'x', name: 'x', arguments: 'x' }],
        tokens: [-1],
        finish: {
          reason: 'stop',
          usage: { input_tokens: 1, output_tokens: 1, cached_tokens: 0 },
          timings: { started_ms: null, first_token_ms: null, finished_ms: 1 },
          stop_string: 'x',
          repetition: { period_tokens: 1, repeated_tokens: 9, stopped: true },
        },
      },
    ],
  },
  { type: 'tokens', id: 1, tokens: [-1], pieces: ['x'], prompt: 'x' },
  { type: 'wants_cells', least: 1, wanted: 2 },
  { type: 'stats', stats: stats(), submits: { done: 1, oldest: 1 }, rssBytes: 1, privateBytes: 1, cpuMs: 1 },
  {
    type: 'estimated',
    estimates: {
      trained_context_length: 1,
      layers: 1,
      has_experts: false,
      makes_embeddings: false,
      process_bytes: 1,
      state_fixed_bytes: 1,
      state_token_bytes: 1,
      estimates: [{ context_length: 1, devices: [memory()] }],
    },
  },
  { type: 'not_estimated', error: { code: 'MODEL_INVALID', message: 'm', hint: 'h', retry_after_seconds: 1 } },
  { type: 'loaded', info: info() },
  {
    type: 'failed',
    error: {
      code: 'CONTEXT_OVERFLOW',
      message: 'm',
      overflow: { prompt_tokens: 1, is_minimum: true, context_length: 1 },
    },
  },
  {
    type: 'sandbox_tried',
    report: { noNewPrivileges: 0, capabilities: 0, landlock: 0, landlockVersion: 0, seccomp: 0 },
    attempts: [{ what: 'x', error: 'EPERM' }],
  },
  { type: 'tensor', name: 'a' },
  { type: 'quantized', bytes: 1 },
  {
    type: 'probed',
    facts: { addon: null, devices: [], cpuFeatures: 'x', log: ['x'], error: null },
    next: 'x',
  },
];

/** Yields copies of `value`, each with one leaf replaced. */
function* spoilt(value: unknown, by: (leaf: unknown) => readonly unknown[]): Generator {
  if (value instanceof Float32Array) return;
  if (typeof value !== 'object' || value === null) return yield* by(value);
  for (const [name, inner] of Object.entries(value)) {
    if (name === 'type' && 'fraction' in value) continue;
    for (const other of spoilt(inner, by)) {
      yield Array.isArray(value)
        ? value.map((each, at) => (String(at) === name ? other : each))
        : { ...value, [name]: other };
    }
  }
}

test('a field of the wrong type, or an impossible figure, is a damaged frame', () => {
  const wrong = (leaf: unknown): readonly unknown[] => {
    if (typeof leaf === 'number') return leaf < 0 ? ['x', {}] : [-1, 1e300, 'x', {}, [1]];
    return typeof leaf === 'string' ? [7, {}, ['x']] : [{ x: 1 }, 'x'.repeat(100_000)];
  };
  let cases = 0;
  for (const message of whole) {
    assert.equal(decodeAll([encodeFrame(message)]), [message]);
    for (const other of spoilt(message, wrong)) {
      cases += 1;
      assert.throws(
        () => decodeAll([encodeFrame(other as FromEngine)]),
        (error: Error) => error instanceof FrameError && error.message.length < 100,
        JSON.stringify(other).slice(0, 300),
      );
    }
  }
  assert.ok(cases > 150, String(cases));
});

test('one message of each type is checked', () => {
  assert.equal(new Set(whole.map(({ type }) => type)), FROM_ENGINE);
});

/** Yields copies of `value`, each with one list made longer than `most`, by repeating its first element. */
function* lengthened(value: unknown, most: number): Generator<{ readonly at: string; readonly value: unknown }> {
  if (typeof value !== 'object' || value === null || value instanceof Float32Array) return;
  if (Array.isArray(value) && value.length > 0) {
    yield { at: '', value: Array.from({ length: most + 1 }, () => value[0] as unknown) };
  }
  for (const [name, inner] of Object.entries(value)) {
    for (const other of lengthened(inner, most)) {
      const changed = Array.isArray(value)
        ? value.map((each, index) => (String(index) === name ? other.value : each))
        : { ...value, [name]: other.value };
      yield { at: `${name}.${other.at}`, value: changed };
    }
  }
}

test('every list of every frame has a maximum', () => {
  let lists = 0;
  for (const message of whole) {
    for (const { at, value } of lengthened(message, LIMITS.renderedBytes)) {
      lists += 1;
      // As the decoder does with what it has parsed: JSON of that length takes seconds.
      assert.is(isFromEngine(value as FromEngine), false, `${message.type}.${at}`);
    }
  }
  assert.ok(lists > 12, String(lists));
});

test('a frame whose values cost far more than its bytes is refused before it is parsed', () => {
  const bytes = 16 * 1024 * 1024;
  for (const body of [
    '['.repeat(bytes / 2) + ']'.repeat(bytes / 2),
    `{"type":"step","outputs":[${'{},'.repeat(bytes / 3)}{}]}`,
    `{"type":"log","level":"warn","text":"","x":[${'[],'.repeat(bytes / 3)}[]]}`,
    `{"type":"log","level":"warn","text":""${',"x":0'.repeat(bytes / 6)}}`,
    `{"type":"log","level":"warn","text":"","x":[${'0,'.repeat(bytes)}0]}`,
  ]) {
    const used = cpuMs();
    assert.throws(
      () => decodeAll([framed(body)]),
      (error: Error) => error instanceof FrameError && /too many values/.test(error.message),
      body.slice(0, 40),
    );
    assert.ok(cpuMs() - used < 2000, body.slice(0, 40));
  }
});

test('the tokens of the longest text are taken, with their pieces', () => {
  const tokens = Array.from({ length: LIMITS.tokenizeBytes }, (_, at) => at % 200_000);
  const message: FromEngine = { type: 'tokens', id: 1, tokens, pieces: tokens.map(() => 'x') };
  const [decoded] = decodeAll([encodeFrame(message)]);
  assert.ok(decoded?.type === 'tokens');
  assert.is(decoded.pieces?.length, tokens.length);
});

test('vectors follow the JSON in their memory layout', () => {
  const all = new Float32Array(1000).map((_, index) => index / 7);
  const frame = encodeFrame({ type: 'vectors', id: 1, vectors: all.subarray(3, 900) });
  assert.ok(frame.length < 897 * 4 + 64);
  const [decoded] = decodeAll([frame]);
  assert.ok(decoded?.type === 'vectors');
  assert.equal(decoded.vectors, all.slice(3, 900));
});

test('vector bytes that are partial, missing, or in the wrong frame type are a damaged frame', () => {
  const framed = (body: string | Buffer): Buffer => {
    const bytes = Buffer.from(body);
    const header = Buffer.alloc(4);
    header.writeUInt32LE(bytes.length);
    return Buffer.concat([header, bytes]);
  };
  for (const body of [
    '{"type":"vectors","id":1}',
    '{"type":"vectors","id":1}\0',
    '{"type":"vectors","id":1}\0abc',
    '{"type":"accepted","id":1,"inputTokens":1}\0abcd',
  ]) {
    assert.throws(
      () => decodeAll([framed(body)]),
      (error: Error) => error instanceof FrameError,
    );
  }
});

test('a long frame in small chunks is decoded in linear time', () => {
  const text = 'x'.repeat(16 * 1024 * 1024);
  const frame = encodeFrame({ type: 'step', outputs: [{ id: 1, text }] });
  const frames = decoder();
  const used = cpuMs();
  let found: FromEngine[] = [];
  for (let at = 0; at < frame.length; at += 4096) found = [...frames.decode(frame.subarray(at, at + 4096))];
  assert.is(found.length, 1);
  assert.ok(cpuMs() - used < 2000);
});

test('a message above the size limit is refused before anything is written', () => {
  const content = 'x'.repeat(MAX_FRAME_BYTES);
  assert.throws(
    () => encodeFrame({ type: 'generate', request: { id: 1, prompt: content } }),
    (error: Error) => error instanceof FrameError && error.message.length < 100,
  );
});

test('a length above the limit is refused from the header alone', () => {
  const header = Buffer.alloc(4);
  header.writeUInt32LE(MAX_FRAME_BYTES + 1, 0);
  assert.throws(
    () => decodeAll([header]),
    (error: Error) => error instanceof FrameError,
  );
});

function framed(body: string | Buffer): Buffer {
  const bytes = Buffer.from(body);
  const header = Buffer.alloc(4);
  header.writeUInt32LE(bytes.length, 0);
  return Buffer.concat([header, bytes]);
}

test('garbage is an error that does not quote it', () => {
  const secret = 'the-prompt-of-somebody';
  const damaged = [
    '',
    'null',
    '[]',
    '7',
    secret,
    `{"type":"${secret}"}`,
    `{"type":"step","outputs":[{"text":"${secret}"}`,
    '{"kind":"step"}',
    '{"type":7}',
    '{"type":"toString"}',
    Buffer.from([0xff, 0xfe, 0x00, 0x01]),
  ];
  for (const body of damaged) {
    assert.throws(
      () => decodeAll([framed(body)]),
      (error: Error) => error instanceof FrameError && !error.message.includes('prompt') && error.cause === undefined,
      `accepted ${body.toString()}`,
    );
  }
});

test('frames before a damaged one are still delivered', () => {
  const frames = decoder();
  const seen: FromEngine[] = [];
  assert.throws(() => {
    for (const message of frames.decode(Buffer.concat([stream, framed('{')]))) seen.push(message);
  });
  assert.equal(seen, messages);
});

test('each direction accepts only its own message types', () => {
  const toEngine = new FrameDecoder<ToEngine>(TO_ENGINE);
  assert.equal([...toEngine.decode(encodeFrame({ type: 'cancel', id: 3 }))], [{ type: 'cancel', id: 3 }]);
  assert.throws(() => [...toEngine.decode(encodeFrame({ type: 'progress', fraction: 1 }))]);
});

test.run();
