/**
 * A fake engine process without a model. Speaks the real frame protocol and produces, on demand, faults that cannot
 * be triggered in a real engine. A "model" is a file with a Behaviour as JSON; each start appends a line to
 * `<file>.starts`. Prompts that it understands:
 *
 *   say N · grow N (wants N cells first), late grow N (after a while) · endless · crash after N · crash once · refuse · prepare · stall · stop · garbage · oversize ·
 *   flood (ignores pauses) · vectors · lie · chatter · listed, alternate, endless text (more than was asked for) · nested, many
 *   (costs much to parse) · loaded again · poison (dies after some words to other requests, or after a
 *   while) · shy N (no output in the first process) · crash then silence
 */
import { appendFileSync, existsSync, readFileSync, writeFileSync } from 'node:fs';
import { Socket } from 'node:net';
import type { EngineOutput, EngineRequest, EngineTokenizeRequest, NativeLoadOptions } from '../../src/engine/addon.ts';
import { encodeFrame, FrameDecoder, MAX_FRAME_BYTES, TO_ENGINE } from '../../src/engine/frames.ts';
import type { FromEngine, ToEngine } from '../../src/engine/messages.ts';

export interface Behaviour {
  /** `hang`: one heartbeat, then nothing. `rest`: heartbeats, but the load makes no progress. */
  readonly load?: 'hang' | 'rest' | 'exit' | 'invalid' | 'crash';
  readonly loadMs?: number;
  /** Results of a dry run: bytes, and the default context length. `hang`: the dry run reports nothing. */
  readonly weights?: number;
  readonly cachePerToken?: number;
  readonly context?: number;
  /** Trained context length in the store's record; absent: unknown. */
  readonly trained?: number;
  readonly estimate?: 'hang' | 'crash' | 'invalid';
  /** Measured private memory, in bytes; absent if it is not measured. */
  readonly holds?: number;
}

const WORD = 'word ';
const STEP_MS = 2;
const POISON_MS = 300;
const POISON_STEPS = 20;
const LATE_MS = 300;
const FLOOD = 'x'.repeat(64 * 1024);
const FLOOD_BYTES = 32 * 1024 * 1024;
/** Outputs that an engine repeats without end, by prompt. */
const FLOODS: Readonly<Record<string, Omit<EngineOutput, 'id'>>> = {
  listed: { text: '', tokens: Array.from({ length: 10_000 }, () => 1) },
  alternate: {
    text: '',
    tool_calls: Array.from({ length: 4096 }, (_, at) => ({ index: at % 2, id: '', name: '', arguments: '' })),
  },
  'endless text': { text: FLOOD },
};
const noSubmits = { done: 0, oldest: null };

interface Running {
  readonly id: number;
  left: number;
  produced: number;
  paused: boolean;
  readonly crashAfter: number;
  readonly startedAt: number;
}

const pipe = new Socket({ fd: 3 });
const frames = new FrameDecoder<ToEngine>(TO_ENGINE);
const running = new Map<number, Running>();
let file = '';
let behaviour: Behaviour = {};
let contextLength = 0;
let loaded = false;
let stalled = false;
let poisoned = false;
let isFirst = true;
let steps = 0;
let tokens = 0;
let accepted = 0;
let preparing: number | null = null;
/** Ids and cells of generations that wait for cells; the first has been asked for. */
const growing: { readonly id: number; readonly cells: number }[] = [];

function send(message: FromEngine): void {
  pipe.write(encodeFrame(message));
}

/** Sends any JSON. */
function frame(json: string): void {
  const header = Buffer.alloc(4);
  header.writeUInt32LE(json.length, 0);
  pipe.write(Buffer.concat([header, Buffer.from(json)]));
}

function die(): never {
  process.kill(process.pid, 'SIGKILL');
  throw new Error('unreachable');
}

function beat(): void {
  const stats = {
    active: running.size,
    waiting: 0,
    kv_cells_used: tokens,
    kv_cells_cached: 0,
    kv_tokens_swapped: 0,
    kv_cells_total: 1_000_000,
    steps: {
      count: steps,
      rows: steps,
      prompt_tokens: 0,
      cached_tokens: 0,
      generated_tokens: tokens,
      drafted_tokens: 0,
      accepted_tokens: 0,
      preemptions: 0,
      evicted_cells: 0,
      predicted_ms: 0,
      spent_ms: 0,
      threads: 1,
    },
    last_step: { rows: 0, prompt_rows: 0, predicted_ms: 0, spent_ms: 0 },
    tokens_per_second: 0,
    step_age_ms: stalled ? 1 : 0,
    operations: 0,
  };
  const privateBytes = behaviour.holds ?? null;
  const submits = { done: accepted, oldest: preparing };
  const rssBytes = process.memoryUsage.rss();
  send({ type: 'stats', stats: loaded ? stats : null, submits, rssBytes, privateBytes, cpuMs: 0 });
}

/** Reports a fake GPU; each token takes a byte of its memory. */
function tellDevices(): void {
  const card = {
    name: 'Card0',
    description: 'a card',
    backend: 'Fake',
    type: 'gpu',
    memory_total_bytes: 1000,
  } as const;
  send({ type: 'devices', devices: [{ ...card, memory_free_bytes: Math.max(0, 1000 - tokens) }] });
}

function estimate(path: string, { cache_type }: NativeLoadOptions, lengths: readonly number[]): void {
  behaviour = JSON.parse(readFileSync(path, 'utf8')) as Behaviour;
  const { weights = 0, cachePerToken = 0, context = 1000 } = behaviour;
  if (behaviour.estimate === 'hang') return;
  if (behaviour.estimate === 'crash') die();
  if (behaviour.estimate === 'invalid') {
    send({ type: 'not_estimated', error: { code: 'MODEL_INVALID', message: 'this is no model' } });
    return;
  }
  const estimates = lengths.map((length) => {
    const context_length = length === 0 ? context : length;
    const cache_bytes = (context_length * cachePerToken) / (cache_type === 'q8_0' ? 2 : 1);
    const host = { name: 'CPU', is_host: true, mapped_bytes: 0, compute_bytes: 0, free_bytes: null, total_bytes: null };
    return { context_length, devices: [{ ...host, weights_bytes: weights, cache_bytes }] };
  });
  beat();
  send({
    type: 'estimated',
    estimates: {
      trained_context_length: context,
      layers: 1,
      has_experts: false,
      makes_embeddings: false,
      process_bytes: 0,
      state_fixed_bytes: 0,
      state_token_bytes: 0,
      estimates,
    },
  });
}

async function load(path: string, options: NativeLoadOptions): Promise<void> {
  file = path;
  contextLength = options.context_length ?? 0;
  isFirst = !existsSync(`${file}.starts`);
  appendFileSync(`${file}.starts`, `${String(process.pid)}\n`);
  behaviour = JSON.parse(readFileSync(file, 'utf8')) as Behaviour;
  beat();
  if (behaviour.load === 'hang') clearInterval(heartbeat);
  if (behaviour.load === 'hang') return;
  if (behaviour.load === 'rest') return;
  if (behaviour.load === 'exit') process.exit(3);
  if (behaviour.load === 'crash') die();
  if (behaviour.load === 'invalid') {
    send({ type: 'failed', error: { code: 'MODEL_INVALID', message: 'this is no model' } });
    return;
  }
  for (const fraction of [0, 0.5, 1]) {
    send({ type: 'progress', fraction });
    await new Promise((resolve) => setTimeout(resolve, (behaviour.loadMs ?? 0) / 2));
  }
  loaded = true;
  setInterval(step, STEP_MS);
  setInterval(tellDevices, 50);
  tellLoaded();
}

function tellLoaded(): void {
  send({
    type: 'loaded',
    info: {
      trained_context_length: behaviour.trained ?? 1000,
      context_length: contextLength,
      vocabulary: 1,
      embedding_length: 1,
      layers: 1,
      calls_tools: true,
      thinks: false,
      makes_embeddings: false,
      ranks: false,
      draft_refusal: null,
      sees: false,
      hears: false,
      projector_refusal: null,
      adapters: [],
      device: 'CPU',
    },
  });
}

function generate(request: EngineRequest): void {
  const prompt = request.messages?.at(-1)?.content ?? '';
  const number = Number(/\d+/.exec(prompt)?.[0] ?? Infinity);
  if (prompt === 'crash once' && !existsSync(`${file}.crashed`)) {
    writeFileSync(`${file}.crashed`, '');
    die();
  }
  if (prompt === 'refuse') {
    send({
      type: 'step',
      outputs: [
        {
          id: request.id,
          text: '',
          error: { code: 'CONTEXT_OVERFLOW', message: 'the prompt has 2000 tokens, the context 1000' },
        },
      ],
    });
    return;
  }
  if (prompt === 'prepare') {
    preparing = request.id;
    return;
  }
  if (prompt === 'stop') process.kill(process.pid, 'SIGSTOP');
  attack(prompt, request.id);
  if (prompt === 'stall') stalled = true;
  if (prompt === 'crash then silence' && isFirst) die();
  if (prompt === 'poison') {
    setTimeout(die, POISON_MS);
    poisoned = true;
  }
  const grows = /^(late )?grow/.test(prompt);
  if (grows) setTimeout(grow, prompt.startsWith('late') ? LATE_MS : 0, request.id, number);
  const silent =
    grows || prompt === 'poison' || prompt === 'crash then silence' || (prompt.startsWith('shy') && isFirst);
  running.set(request.id, {
    id: request.id,
    left: grows ? 1 : /^(say|shy)/.test(prompt) ? number : prompt === 'crash once' ? 2 : Infinity,
    produced: 0,
    paused: silent,
    crashAfter: prompt.startsWith('crash after') ? number : Infinity,
    startedAt: performance.now(),
  });
  accepted += 1;
  send({ type: 'accepted', id: request.id, inputTokens: 3 });
}

/** A conversation gets its prompt too, a text does not. */
function tokenize(request: EngineTokenizeRequest): void {
  const { id } = request;
  send({ type: 'tokens', id, tokens: [1, 2, 3], ...('text' in request ? {} : { prompt: 'a prompt' }) });
  const usage = { input_tokens: 3, output_tokens: 0, cached_tokens: 0 };
  const timings = { started_ms: 1, first_token_ms: null, finished_ms: 1 };
  send({ type: 'step', outputs: [{ id, text: '', finish: { reason: 'stop', usage, timings } }] });
}

/** What only a damaged or compromised engine sends. */
function attack(prompt: string, id: number): void {
  if (prompt === 'garbage') pipe.write('this is no frame');
  if (prompt === 'oversize') {
    const header = Buffer.alloc(4);
    header.writeUInt32LE(MAX_FRAME_BYTES + 1, 0);
    pipe.write(header);
  }
  if (prompt === 'alternate') {
    const calls = [0, 1].map((index) => ({ index, id: 'x', name: 'call', arguments: '' }));
    send({ type: 'step', outputs: [{ id: id, text: '', tool_calls: calls }] });
  }
  if (prompt === 'flood') setInterval(() => send({ type: 'step', outputs: [{ id: id, text: FLOOD }] }), 1);
  if (prompt === 'vectors') send({ type: 'vectors', id: id, vectors: new Float32Array(1000) });
  if (prompt === 'lie')
    send({ type: 'stats', stats: null, submits: noSubmits, rssBytes: 1e300, privateBytes: -1, cpuMs: 0 });
  if (prompt === 'chatter')
    for (let n = 0; n < 20_000; n += 1) send({ type: 'log', level: 'warn', text: `line ${String(n)}` });
  const flood = FLOODS[prompt];
  if (flood !== undefined) setInterval(() => send({ type: 'step', outputs: [{ id: id, ...flood }] }), 1);
  if (prompt === 'nested') frame('['.repeat(FLOOD_BYTES / 2) + ']'.repeat(FLOOD_BYTES / 2));
  if (prompt === 'many') frame(`{"type":"step","outputs":[${'{},'.repeat(FLOOD_BYTES / 4)}{}]}`);
  if (prompt === 'loaded again') tellLoaded();
}

/** Logs the new limit; a real engine drops it before the model is loaded. */
function tellPrefixBytes(bytes: number): void {
  if (loaded) send({ type: 'log', level: 'warn', text: `prefix_bytes ${String(bytes)}` });
}

function grow(id: number, cells: number): void {
  if (growing.push({ id, cells }) === 1) wantCells();
}

function wantCells(): void {
  const [first] = growing;
  if (first !== undefined) send({ type: 'wants_cells', least: first.cells, wanted: first.cells });
}

function granted(cells: number, refusal: string): void {
  const asked = growing.shift();
  wantCells();
  const each = asked === undefined ? undefined : running.get(asked.id);
  if (asked === undefined || each === undefined) return;
  each.paused = false;
  if (cells >= asked.cells) return;
  running.delete(asked.id);
  send({ type: 'step', outputs: [{ id: asked.id, text: '', error: { code: 'OUT_OF_MEMORY', message: refusal } }] });
}

function step(): void {
  if (stalled) return;
  const going = [...running.values()].filter(({ paused }) => !paused);
  if (going.length === 0) return;
  steps++;
  if (poisoned && steps > POISON_STEPS) die();
  if (going.some(({ produced, crashAfter }) => produced >= crashAfter)) die();
  send({
    type: 'step',
    outputs: going.map((each) => {
      tokens++;
      each.produced++;
      if (each.produced < each.left) return { id: each.id, text: WORD };
      running.delete(each.id);
      return {
        id: each.id,
        text: WORD,
        finish: {
          reason: 'stop',
          usage: { input_tokens: 3, output_tokens: each.produced, cached_tokens: 0 },
          timings: { started_ms: 1, first_token_ms: 2, finished_ms: performance.now() - each.startedAt },
        },
      };
    }),
  });
}

beat();
const heartbeat = setInterval(beat, 50);
pipe.on('end', die);
pipe.on('error', die);
pipe.on('data', (chunk: Buffer) => {
  for (const message of frames.decode(chunk)) {
    if (message.type === 'load') void load(message.path, message.options);
    else if (message.type === 'estimate') estimate(message.path, message.options, message.contextLengths);
    else if (message.type === 'generate') generate(message.request);
    else if (message.type === 'tokenize') tokenize(message.request);
    else if (message.type === 'grant_cells') granted(message.cells, message.refusal);
    else if (message.type === 'prefix_bytes') tellPrefixBytes(message.bytes);
    else if (message.type === 'close') process.exit(0);
    else if (message.type === 'cancel') running.delete(message.id);
    else if (message.type === 'pause' || message.type === 'resume') {
      const each = running.get(message.id);
      if (each !== undefined) each.paused = message.type === 'pause';
    }
  }
});
