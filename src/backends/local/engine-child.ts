/**
 * One engine process from start to end. It ends once, for one reason. `onEnd` is called with the reason when the
 * process is gone and everything that it wrote has been delivered.
 */
import type {
  CellDemand,
  EngineInfo,
  EngineOutput,
  NativeDevice,
  NativeLoadOptions,
  NativeMemoryEstimates,
  NativeStats,
} from '../../engine/addon.ts';
import { rateLimit, readFrames, readLines } from '../../engine/child-output.ts';
import { encodeFrame } from '../../engine/frames.ts';
import type { FromEngine, ToEngine } from '../../engine/messages.ts';
import { usableGpu } from '../../engine/gpu.ts';
import { describeExit, spawnEngine, type SpawnedEngine } from '../../engine/spawn.ts';
import type { Logger } from '../../log/log.ts';
import { SvcError, type ErrorCode } from '../../protocol/errors.ts';
import type { TokensEvent } from '../../protocol/tokenize.ts';
import { abortable } from '../abortable.ts';
import { deferred, type Deferred } from './deferred.ts';
import type { Estimate } from './memory/fit.ts';
import { StallWatch } from './stall-watch.ts';

/** Bytes queued for the pipe above which requests are refused. */
const PIPE_BYTES = 64 * 1024 * 1024;
const CLOSE_TIMEOUT_MS = 5_000;
/** libllama logs some hundred lines per load. */
const LOG_FRAMES_PER_SECOND = 500;

export interface EngineChildOptions {
  /** For messages, the log and the process title. */
  readonly model: string;
  readonly path: string;
  /** The GPU driver's shader cache; undefined: none. */
  readonly shaderFolder: string | undefined;
  /**
   * Waits for memory and returns the load options. `estimate` does a dry run in the process itself. Throws the reason
   * if the model cannot be loaded. `signal` aborts when the process ends or is about to be ended.
   */
  plan(estimate: Estimate, signal: AbortSignal): Promise<NativeLoadOptions>;
  readonly stallTimeoutMs: number;
  readonly log: Logger;
  /** The child's entry file; tests replace it. */
  readonly entry?: string | undefined;
  readonly inFlight: OutputReader;
  onProgress(fraction: number): void;
  onLoaded(info: EngineInfo): void;
  /** A fresh measurement of the devices' memory. */
  onDevices(devices: readonly NativeDevice[]): void;
  /** The engine needs memory for a larger KV cache. Resolves with the number of cells, or throws OUT_OF_MEMORY. */
  grow(demand: CellDemand): Promise<number>;
  /** `isSilent` changed. */
  onSilence(): void;
  /**
   * The last callback, called once. CANCELLED, or NOT_READY when svc stops: the daemon ended the process. `endless`: id
   * of the request whose preparation took longer than the stall timeout, so that the process was killed; null: none.
   */
  onEnd(error: SvcError, endless: number | null): void;
}

/** Gets what the engine sends for the requests, by id. */
export interface OutputReader {
  accept(id: number, inputTokens: number): void;
  pushVectors(id: number, vectors: Float32Array): void;
  pushTokens(id: number, tokens: Omit<TokensEvent, 'type'>): void;
  push(outputs: readonly EngineOutput[]): void;
}

type LogFrame = Extract<FromEngine, { type: 'log' }>;
const LOG_LINE_CHARACTERS = 4096;
/** The daemon ended the process: nothing has failed. */
const ORDERED: ReadonlySet<ErrorCode> = new Set(['CANCELLED', 'NOT_READY']);

export class EngineChild {
  /** Resolves when the process is gone. */
  readonly ended: Promise<void>;
  readonly #options: EngineChildOptions;
  #spawned: SpawnedEngine | undefined;
  #watch: StallWatch | undefined;
  #loaded = false;
  /** The reason for ending the process; undefined: not ended by us, so the exit status is the reason. */
  #verdict: SvcError | undefined;
  #endless: number | null = null;
  #stats: NativeStats | null = null;
  #rssBytes: number | null = null;
  #privateBytes: number | null = null;
  #cpuMs: number | null = null;
  /** Aborted when the process ends or is to end. */
  readonly #planning = new AbortController();
  readonly #logLine = rateLimit(
    LOG_FRAMES_PER_SECOND,
    (level: LogFrame['level'], text: string) => {
      // libllama logs far too much at `info`.
      const line = text.trimEnd().slice(0, LOG_LINE_CHARACTERS);
      this.#options.log[level === 'info' ? 'debug' : level]({ model: this.#options.model, line }, 'engine log');
    },
    (dropped) => {
      this.#options.log.warn(
        { model: this.#options.model, dropped },
        'rate limit: lines of the engine log were dropped',
      );
    },
  );
  #isPlanned = false;
  /** Number of adapters of the load; undefined: it has not been asked for. */
  #adapters: number | undefined;
  #isGrowing = false;
  #estimating: Deferred<NativeMemoryEstimates> | undefined;

  constructor(options: EngineChildOptions) {
    this.#options = options;
    this.ended = this.#live();
  }

  get pid(): number | null {
    return this.#spawned?.pid ?? null;
  }
  /** From the last heartbeat; null before the model is loaded. */
  get stats(): NativeStats | null {
    return this.#stats;
  }
  get rssBytes(): number | null {
    return this.#rssBytes;
  }
  /** Resident memory not backed by a file; null where it is not measured. */
  get privateBytes(): number | null {
    return this.#privateBytes;
  }

  /** True if the engine has sent nothing for a while: the process is stopped or hangs. */
  get isSilent(): boolean {
    return this.#watch?.isSilent ?? false;
  }

  /** CPU time of the process, from the last heartbeat. */
  get cpuMs(): number | null {
    return this.#cpuMs;
  }

  /** Sends a request. Throws BUSY while too many bytes wait for the engine to read them. */
  ask(message: Extract<ToEngine, { type: 'generate' | 'embed' | 'rerank' | 'tokenize' | 'detokenize' }>): void {
    if ((this.#spawned?.pipe.writableLength ?? 0) > PIPE_BYTES) {
      throw new SvcError('BUSY', `the engine of ${this.#options.model} does not keep up with its requests`, {
        retryAfterSeconds: 1,
      });
    }
    this.send(message);
  }

  /** Does nothing if the process is ending. */
  send(message: ToEngine): void {
    const pipe = this.#spawned?.pipe;
    if (pipe?.writable === true) pipe.write(encodeFrame(message));
  }

  /** Kills the engine for a protocol violation; `what` continues "the engine of X …". */
  offend(what: string): void {
    this.kill(this.#crash(what, LOG_HINT));
  }

  /** Kills the process at once. */
  kill(reason: SvcError): void {
    this.#verdict ??= reason;
    this.#planning.abort(reason);
    this.#spawned?.kill();
  }

  /** Lets the engine finish and free its memory, up to CLOSE_TIMEOUT_MS. Resolves when the process is gone. */
  async close(reason: SvcError): Promise<void> {
    this.#verdict ??= reason;
    this.#planning.abort(reason);
    this.send({ type: 'close' });
    const timer = setTimeout(() => this.#spawned?.kill(), this.#loaded ? CLOSE_TIMEOUT_MS : 0);
    await this.ended;
    clearTimeout(timer);
  }

  async #live(): Promise<void> {
    const { model, log, entry } = this.#options;
    try {
      const gpu = await usableGpu();
      const spawned = await spawnEngine({ entry, gpuModule: gpu.module });
      this.#spawned = spawned;
      log.info({ model, pid: spawned.pid }, 'engine started');
      if (gpu.trouble !== null) log.info({ model, reason: gpu.trouble.reason }, 'GPU not used');
      this.#watch = new StallWatch({
        timeoutMs: this.#options.stallTimeoutMs,
        onStall: (what, request) => {
          this.#endless = request;
          this.kill(this.#crash(what, 'if this machine is just slow, raise engine.stall_timeout_seconds'));
        },
        onSilence: this.#options.onSilence,
      });
      this.#read(spawned);
      void spawned.ended.then((exit) => {
        this.#planning.abort(this.#crash(describeExit(exit), LOG_HINT));
      });
      if (this.#verdict === undefined) void this.#load();
      else spawned.kill(); // decided while it was being started
      const exit = await spawned.ended;
      this.#verdict ??= this.#crash(describeExit(exit), exit.signal === 'SIGKILL' ? MEMORY_HINT : LOG_HINT);
    } catch (error) {
      this.#verdict ??= SvcError.from(error);
    }
    this.#watch?.stop();
    const { code, message } = this.#verdict;
    log[ORDERED.has(code) ? 'info' : 'error']({ model, pid: this.pid, code, reason: message }, 'engine ended');
    this.#options.onEnd(this.#verdict, this.#endless);
  }

  async #load(): Promise<void> {
    const { model, path, shaderFolder, plan } = this.#options;
    const { signal } = this.#planning;
    try {
      const options = await plan((...asked) => this.#estimate(...asked), signal);
      signal.throwIfAborted();
      this.#isPlanned = true;
      this.#adapters = options.adapters?.length ?? 0;
      this.send({ type: 'load', model, path, options, shaderFolder, parentPid: process.pid });
    } catch (error) {
      // If the process exited by itself, its exit is the reason.
      if (!signal.aborted) this.kill(SvcError.from(error));
    }
  }

  /** REQUIRES: no other estimate is running. */
  async #estimate(options: NativeLoadOptions, contextLengths: readonly number[]): Promise<NativeMemoryEstimates> {
    const { model, path, shaderFolder } = this.#options;
    const estimating = deferred<NativeMemoryEstimates>();
    this.#estimating = estimating;
    this.#watch?.progressed();
    this.send({ type: 'estimate', model, path, options, shaderFolder, contextLengths, parentPid: process.pid });
    try {
      return await abortable(estimating.promise, this.#planning.signal);
    } finally {
      this.#estimating = undefined;
    }
  }

  #read({ pid, pipe, stdout, stderr }: SpawnedEngine): void {
    const { model, log } = this.#options;
    pipe.on('data', () => this.#watch?.heard());
    readFrames(
      pipe,
      (message) => {
        this.#receive(message);
      },
      (error) => {
        log.error({ model, pid, err: error }, 'damaged frame');
        this.kill(this.#crash('sent a damaged frame', LOG_HINT));
      },
    );
    readLines(stdout, (line) => {
      log.debug({ model, pid, line }, 'engine output');
    });
    readLines(stderr, (line) => {
      log.warn({ model, pid, line }, 'engine output');
    });
  }

  #receive(message: FromEngine): void {
    switch (message.type) {
      case 'estimated':
        this.#estimating?.resolve(message.estimates);
        break;
      case 'not_estimated':
        this.#estimating?.reject(SvcError.fromRecord(message.error));
        break;
      case 'progress':
        this.#watch?.progressed();
        this.#options.onProgress(message.fraction);
        break;
      case 'loaded':
        this.#onLoaded(message.info);
        break;
      case 'failed':
        this.kill(SvcError.fromRecord(message.error));
        break;
      case 'accepted':
        this.#options.inFlight.accept(message.id, message.inputTokens);
        break;
      case 'wants_cells':
        void this.#grow(message);
        break;
      case 'vectors':
        this.#options.inFlight.pushVectors(message.id, message.vectors);
        break;
      case 'tokens':
        this.#options.inFlight.pushTokens(message.id, message);
        break;
      case 'step':
        this.#options.inFlight.push(message.outputs);
        break;
      case 'stats':
        this.#takeStats(message);
        break;
      case 'devices':
        this.#options.onDevices(message.devices);
        break;
      case 'log':
        this.#logLine.call(message.level, message.text);
        break;
      case 'probed':
      case 'sandbox_tried':
      case 'tensor':
      case 'quantized':
        break;
    }
  }

  #onLoaded(info: EngineInfo): void {
    if (this.#verdict !== undefined) return;
    if (this.#loaded || this.#adapters === undefined || info.adapters.length > this.#adapters) {
      this.offend('reported a load that was not requested');
      return;
    }
    this.#loaded = true;
    this.#watch?.loaded();
    this.#logRefusals(info);
    this.#options.onLoaded(info);
  }

  /** Logs which files of the load are not used. */
  #logRefusals({ draft_refusal, projector_refusal, adapters }: EngineInfo): void {
    const { model, log } = this.#options;
    if (draft_refusal !== null) {
      const reason = `the draft model ${draft_refusal}`;
      log.info({ model, reason }, 'engine.draft_model is not used for this model');
    }
    if (projector_refusal !== null) {
      const reason = `the projector ${projector_refusal}`;
      log.warn({ model, reason }, 'the projector is not used for this model');
    }
    for (const { id, error } of adapters) {
      if (error !== '') log.warn({ model, reason: `the adapter ${id} ${error}` }, 'a LoRA adapter is not used');
    }
  }

  #takeStats({ stats, submits, rssBytes, privateBytes, cpuMs }: Extract<FromEngine, { type: 'stats' }>): void {
    this.#rssBytes = rssBytes;
    this.#privateBytes = privateBytes;
    this.#cpuMs = cpuMs;
    // Waiting for memory is not a stall.
    if (!this.#isPlanned && this.#estimating === undefined) this.#watch?.progressed();
    this.#stats = stats;
    if (stats !== null) this.#watch?.beat(stats, submits);
  }

  async #grow(demand: CellDemand): Promise<void> {
    if (this.#isGrowing) {
      this.offend('asked for memory again before it had an answer');
      return;
    }
    this.#isGrowing = true;
    let [cells, refusal] = [0, ''];
    try {
      cells = await this.#options.grow(demand);
    } catch (error) {
      refusal = SvcError.from(error).message;
    }
    this.#isGrowing = false;
    this.send({ type: 'grant_cells', cells, refusal });
  }

  #crash(what: string, hint: string): SvcError {
    const when = this.#loaded ? '' : ' while it was loading';
    return new SvcError('ENGINE_CRASHED', `the engine of ${this.#options.model} ${what}${when}`, { hint });
  }
}

const LOG_HINT = 'run `svc logs` for the details; please report it if it happens again';
const MEMORY_HINT =
  'the system probably ran out of memory: use a smaller model or a shorter context; see `svc model memory MODEL`';
