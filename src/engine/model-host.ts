/**
 * One model in an engine process: estimates its memory, loads it, verifies it with one token, vector or score, and
 * passes messages between the pipe and the native engine, whose runner thread does the work. JavaScript wakes once per
 * message and at most once per step.
 *
 * Back-pressure: output that the daemon has not read waits in this process's memory. Above HOLD_BYTES the runner is
 * held between steps until the buffer is drained, so a stopped or busy daemon costs a bounded buffer and no compute.
 */
import type { Duplex } from 'node:stream';
import { setTimeout as sleep } from 'node:timers/promises';
import { SvcError } from '../protocol/errors.ts';
import type {
  Addon,
  EngineDetokenizeRequest,
  EngineOutput,
  EngineRequest,
  EngineTokenizeRequest,
  NativeEngine,
  NativeOutput,
} from './addon.ts';
import { encodeFrame } from './frames.ts';
import type { FromEngine, ToEngine } from './messages.ts';
import { loadAddon, type LoadedAddon } from './loader.ts';
import { tokensOf } from './tokens.ts';
import { enterSandbox, keepShaders, leaveLastCapability, missingParts } from './sandbox.ts';

const HEARTBEAT_MS = 500;
/** Interval between measurements of the devices' memory. */
const DEVICES_MS = 2_000;
const HOLD_BYTES = 256 * 1024;
const LOG_LINE_CHARACTERS = 4096;
/** The daemon's ids start at 1. */
const WARM_UP_ID = 0;

type Load = Extract<ToEngine, { type: 'load' }>;
type Estimate = Extract<ToEngine, { type: 'estimate' }>;
type Ask = Extract<
  ToEngine,
  {
    type:
      | 'generate'
      | 'embed'
      | 'rerank'
      | 'tokenize'
      | 'detokenize'
      | 'cancel'
      | 'pause'
      | 'resume'
      | 'grant_cells'
      | 'prefix_bytes';
  }
>;

export class ModelHost {
  readonly #pipe: Duplex;
  /** Measured only at heartbeats. */
  #memory: Pick<Extract<FromEngine, { type: 'stats' }>, 'rssBytes' | 'privateBytes'> = {
    rssBytes: 0,
    privateBytes: null,
  };
  #opened: LoadedAddon | undefined;
  #engine: NativeEngine | undefined;
  #held = false;
  #isClosing = false;
  /** Requests being prepared on a worker thread, unknown to the engine until then. true: cancelled meanwhile. */
  readonly #submitting = new Map<number, boolean>();
  #submitted = 0;
  /** Resolves when no earlier request with pictures or sounds is being prepared. */
  #lastMedia: Promise<unknown> = Promise.resolve();
  /** Those requests: they are not stuck, however long a projector computes. */
  readonly #withMedia = new Set<number>();
  #onWarmUp: (output: NativeOutput) => void = () => undefined;

  constructor(pipe: Duplex) {
    this.#pipe = pipe;
    this.#beat();
    setInterval(() => {
      this.#beat();
    }, HEARTBEAT_MS);
  }

  /** Sends `estimated` or `not_estimated`. */
  async estimate(message: Estimate): Promise<void> {
    const { path, options, contextLengths } = message;
    try {
      const estimates = await this.#open(message).estimateMemory(path, options, contextLengths);
      // The plan needs the memory that this process uses now.
      this.#beat();
      this.#send({ type: 'estimated', estimates });
    } catch (error) {
      this.#send({ type: 'not_estimated', error: SvcError.from(error).toRecord() });
    }
  }

  /** Sends `loaded`, or throws the reason for the failure. */
  async load(message: Load): Promise<void> {
    const { path, options } = message;
    const addon = this.#open(message);
    const engine = await addon.load(
      path,
      options,
      (fraction) => {
        this.#send({ type: 'progress', fraction });
      },
      (outputs) => {
        this.#onStep(outputs);
      },
    );
    await this.#warmUp(engine);
    // Only now, or heartbeats would report the warm-up as a request.
    this.#engine = engine;
    leaveLastCapability();
    void this.#tellDevices(addon);
    this.#send({ type: 'loaded', info: engine.info });
  }

  receive(message: Ask): void {
    const engine = this.#engine;
    if (engine === undefined) return; // the daemon waits for `loaded`
    switch (message.type) {
      case 'generate':
        void this.#submit(message.request.id, () => this.#generate(engine, message.request));
        break;
      case 'embed':
        void this.#submit(message.request.id, () =>
          engine.embed({
            ...message.request,
            input: message.request.input.map((each) => (typeof each === 'string' ? each : Int32Array.from(each))),
          }),
        );
        break;
      case 'rerank':
        void this.#submit(message.request.id, () => engine.rerank(message.request));
        break;
      case 'tokenize':
        void this.#submit(message.request.id, () => this.#tokenize(engine, message.request));
        break;
      case 'detokenize':
        void this.#submit(message.request.id, () => this.#detokenize(engine, message.request));
        break;
      case 'cancel':
        if (this.#submitting.has(message.id)) this.#submitting.set(message.id, true);
        engine.cancel(message.id);
        break;
      case 'pause':
        engine.pause(message.id);
        break;
      case 'resume':
        engine.resume(message.id);
        break;
      case 'grant_cells':
        engine.grantCells(message.cells, message.refusal);
        break;
      case 'prefix_bytes':
        engine.setPrefixBytes(message.bytes);
        break;
    }
  }

  async close(): Promise<void> {
    this.#isClosing = true;
    await this.#engine?.close();
  }

  /** The sandbox allows only the files of this message: a `load` after an `estimate` names the same files. */
  #open({ path, options, shaderFolder, parentPid }: Load | Estimate): Addon {
    if (this.#opened !== undefined) return this.#opened.addon;
    const opened = loadAddon();
    opened.addon.dieWithParent(parentPid);
    opened.addon.setLogger((level, text) => {
      if (level !== 'debug' && !this.#held)
        this.#send({ type: 'log', level, text: text.slice(0, LOG_LINE_CHARACTERS) });
    });
    keepShaders(shaderFolder);
    opened.addon.loadBackends(opened.directory);
    const missing = missingParts(
      enterSandbox({
        models: [
          path,
          options.draft_path,
          options.projector_path,
          ...(options.adapters ?? []).map((each) => each.path),
        ],
        prefixFolder: options.prefix_folder,
        shaderFolder,
        addonFolder: opened.directory,
      }),
    );
    if (missing.length > 0 && process.platform === 'linux')
      this.#send({
        type: 'log',
        level: 'warn',
        text: `the sandbox of this engine is incomplete: ${missing.join('; ')}`,
      });
    this.#opened = opened;
    return opened.addon;
  }

  /**
   * Pictures and sounds take seconds: one request at a time prepares them, so that others find a free worker thread.
   */
  async #generate(engine: NativeEngine, request: EngineRequest): Promise<number> {
    if (request.messages?.some(({ media }) => media !== undefined) !== true) return await engine.submit(request);
    this.#withMedia.add(request.id);
    const submitted = this.#lastMedia.then(() => {
      if (this.#submitting.get(request.id) === true) throw new SvcError('CANCELLED', 'the request was cancelled');
      return engine.submit(request);
    });
    this.#lastMedia = submitted.catch(() => undefined);
    try {
      return await submitted;
    } finally {
      this.#withMedia.delete(request.id);
    }
  }

  /** Sends the tokens and the end. Resolves with the number of tokens. */
  async #tokenize(engine: NativeEngine, request: EngineTokenizeRequest): Promise<number> {
    const startedAt = performance.now();
    const found = await tokensOf(engine, request);
    this.#send({ type: 'tokens', id: request.id, ...found });
    this.#finish(request.id, '', found.tokens.length, startedAt);
    return found.tokens.length;
  }

  #detokenize(engine: NativeEngine, { id, tokens, special }: EngineDetokenizeRequest): number {
    const startedAt = performance.now();
    const text = engine.detokenize(Int32Array.from(tokens), { special: special === true });
    this.#finish(id, text, tokens.length, startedAt);
    return tokens.length;
  }

  /** Sends the end of a request that the runner does not know. */
  #finish(id: number, text: string, inputTokens: number, startedAt: number): void {
    const usage = { input_tokens: inputTokens, output_tokens: 0, cached_tokens: 0 };
    const timings = { started_ms: 0, first_token_ms: null, finished_ms: performance.now() - startedAt };
    this.#send({ type: 'step', outputs: [{ id, text, finish: { reason: 'stop', usage, timings } }] });
  }

  async #submit(id: number, submit: () => number | Promise<number>): Promise<void> {
    this.#submitting.set(id, false);
    try {
      const inputTokens = await submit();
      if (this.#submitting.get(id) === true) this.#engine?.cancel(id);
      this.#send({ type: 'accepted', id, inputTokens });
    } catch (error) {
      if (!(error instanceof SvcError))
        this.#send({ type: 'log', level: 'error', text: `submit failed${trace(error)}` });
      this.#send({ type: 'step', outputs: [{ id, text: '', error: SvcError.from(error).toRecord() }] });
    } finally {
      this.#submitting.delete(id);
      this.#submitted += 1;
    }
  }

  /**
   * The first token, vector or score triggers all lazy initialization and shows that the model works on this machine.
   */
  async #warmUp(engine: NativeEngine): Promise<void> {
    const finished = new Promise<void>((resolve, reject) => {
      this.#onWarmUp = ({ finish, error }) => {
        if (error !== undefined) reject(SvcError.fromRecord(error as never));
        else if (finish !== undefined) resolve();
      };
    });
    await Promise.all([submitWarmUp(engine), finished]);
  }

  #onStep(outputs: readonly NativeOutput[]): void {
    const [first] = outputs;
    if (first?.id === WARM_UP_ID) {
      this.#onWarmUp(first);
      return;
    }
    // Stats are sent before the end of an answer, so that they include it.
    if (outputs.some(({ finish, error }) => finish !== undefined || error !== undefined)) this.#tellStats();
    for (const { id, embeddings, cells } of outputs) {
      if (embeddings !== undefined) this.#send({ type: 'vectors', id, vectors: embeddings });
      if (cells !== undefined) this.#send({ type: 'wants_cells', ...cells });
    }
    this.#send({ type: 'step', outputs: outputs.map(forTheStep) });
  }

  /** Separate from the heartbeat, which must not wait for a driver. */
  async #tellDevices(addon: Addon): Promise<void> {
    for (;;) {
      // If a driver fails, nothing is sent: the daemon discards old figures.
      const devices = await addon.devices().catch(() => null);
      if (devices !== null && !this.#held) this.#send({ type: 'devices', devices });
      await sleep(DEVICES_MS);
    }
  }

  #beat(): void {
    this.#memory = {
      rssBytes: process.memoryUsage.rss(),
      privateBytes: this.#opened?.addon.privateBytes() ?? null,
    };
    this.#tellStats();
  }

  #tellStats(): void {
    // A closed engine has no stats.
    if (this.#held || this.#isClosing) return;
    this.#send({
      type: 'stats',
      stats: this.#engine?.stats() ?? null,
      submits: { done: this.#submitted, oldest: this.#oldest() },
      ...this.#memory,
      cpuMs: cpuMs(),
    });
  }

  #oldest(): number | null {
    for (const id of this.#submitting.keys()) if (!this.#withMedia.has(id)) return id;
    return null;
  }

  #send(message: FromEngine): void {
    this.#pipe.write(encodeFrame(message));
    if (this.#held || this.#pipe.writableLength <= HOLD_BYTES) return;
    this.#held = true;
    this.#engine?.hold(true);
    this.#pipe.once('drain', () => {
      this.#held = false;
      this.#engine?.hold(false);
    });
  }
}

async function submitWarmUp(engine: NativeEngine): Promise<number> {
  const { ranks, makes_embeddings } = engine.info;
  if (ranks) return engine.rerank({ id: WARM_UP_ID, query: 'Hello', documents: ['Hello'] });
  if (makes_embeddings) return engine.embed({ id: WARM_UP_ID, input: ['Hello'] });
  return engine.submit({ id: WARM_UP_ID, prompt: 'Hello', max_tokens: 1, sampling: { temperature: 0 } });
}

/** CPU time of all threads since the process started. */
function cpuMs(): number {
  const { user, system } = process.cpuUsage();
  return Math.round((user + system) / 1000);
}

/** Without what has frames of its own. */
function forTheStep(output: NativeOutput): EngineOutput {
  if (output.embeddings === undefined && output.cells === undefined) return output;
  const { embeddings: _, cells: __, ...rest } = output;
  return rest;
}

/** Stack trace of an error without its message, which may contain user text. */
function trace(error: unknown): string {
  const stack = error instanceof Error ? (error.stack ?? '') : '';
  return stack.slice(Math.max(0, stack.indexOf('\n    at ')));
}
