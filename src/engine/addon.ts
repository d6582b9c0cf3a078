/** The native addon as JavaScript sees it. Built from native/binding; loaded only in an engine process. */
import type { FinishReason } from '../protocol/generate.ts';

export interface NativeDevice {
  readonly name: string;
  readonly description: string;
  readonly backend: string;
  readonly type: 'cpu' | 'gpu' | 'igpu' | 'accel';
  /** null: the backend does not know. */
  readonly memoryTotalBytes: number | null;
  /** As it was at the call; null: the backend does not measure it. */
  readonly memoryFreeBytes: number | null;
}

export interface NativeModelInfo {
  readonly description: string;
  readonly architecture: string;
  readonly quantization: string;
  readonly parameters: number;
  readonly sizeBytes: number;
  readonly trainedContextLength: number;
  /** KV cells of this engine, or tokens of the longest input that it embeds. */
  readonly contextLength: number;
  readonly vocabulary: number;
  /** Numbers of a hidden state, or of an embedding. */
  readonly embeddingLength: number;
  readonly layers: number;
  readonly threads: number;
  readonly hasChatTemplate: boolean;
  /** And no text. */
  readonly makesEmbeddings: boolean;
  /** Why the draft model drafts nothing, in words that go on after "the draft model". null: it does, or there is none. */
  readonly draftRefusal: string | null;
  readonly device: string;
  readonly metadata: Readonly<Record<string, string>>;
}

export interface NativeRequest {
  readonly id: number;
  readonly messages?: readonly { readonly role: string; readonly content: string }[];
  readonly prompt?: string;
  readonly maxTokens?: number;
  /** Default false. What does not fit in the context is left out and not refused. */
  readonly truncate?: boolean;
  readonly temperature?: number;
  readonly topK?: number;
  readonly topP?: number;
  readonly minP?: number;
  readonly repeatPenalty?: number;
  readonly frequencyPenalty?: number;
  readonly presencePenalty?: number;
  readonly seed?: number;
  readonly logitBias?: readonly (readonly [number, number])[];
  readonly stop?: readonly string[];
  /** Default `interactive`. Batch work makes way for it, but does not wait for ever. */
  readonly priority?: 'interactive' | 'batch';
  /** Default true: what is cached of the prompt is not computed again. Without effect where there is a seed. */
  readonly cachePrompt?: boolean;
  /** Name of the client. `cachedTokens` counts only what clients of that name sent before. */
  readonly share?: string;
  /** Default false. true: prefixes are reused only between requests of that share. */
  readonly ownPrefixes?: boolean;
  /** Default true. false: the prompt and the answer are not written to the disk. */
  readonly store?: boolean;
  /** GBNF that the text has to follow. Text that leaves no choice is not computed, unless `logprobs` asks for it. */
  readonly grammar?: string;
  /** How many alternatives to tell for each token, 0 to 20. Absent: nothing of probabilities. */
  readonly logprobs?: number;
}

/** Of the model's own distribution, before sampling makes anything of it. */
export interface NativeLogprob {
  /** One character for each byte. */
  readonly bytes: string;
  readonly logprob: number;
}

export interface NativeEmbedRequest {
  /** As a generation's, and of the same kind. */
  readonly id: number;
  /** Token ids are taken as they are. */
  readonly inputs: readonly (string | Int32Array)[];
  /** Default false. An input that is too long loses its end and is not refused. */
  readonly truncate?: boolean;
}

/** What one generation, or one request for embeddings, produced in one step. */
export interface NativeOutput {
  readonly id: number;
  /** Empty when the step only finished it. */
  readonly text: string;
  /** The vectors of the inputs after those that came before, one behind the other. */
  readonly embeddings?: Float32Array;
  /** Of the tokens that begin in `text`. */
  readonly logprobs?: readonly (NativeLogprob & { readonly top: readonly NativeLogprob[] })[];
  readonly finish?: {
    readonly reason: FinishReason;
    readonly inputTokens: number;
    readonly outputTokens: number;
    readonly cachedTokens: number;
    /** Not counted as input. Absent: the request did not allow it. */
    readonly truncatedTokens?: number;
    /** Milliseconds since submit; null: did not happen. */
    readonly startedMs: number | null;
    readonly firstTokenMs: number | null;
    readonly finishedMs: number;
  };
  readonly error?: { readonly code: string; readonly message: string; readonly param?: string };
}

/** Counters run since the model was loaded. */
export interface NativeStats {
  readonly active: number;
  readonly waiting: number;
  /** By generations that are alive. */
  readonly cellsUsed: number;
  /** By prefixes that are kept until their cells are wanted. */
  readonly cellsCached: number;
  readonly cellsTotal: number;
  /** Of prefixes that are kept outside the cells, in ordinary memory. */
  readonly swappedTokens: number;
  readonly steps: number;
  /** Of all steps, with those that only pad them. */
  readonly rows: number;
  /** Of prompts: computed, and taken from the cache instead. */
  readonly promptTokens: number;
  readonly cachedTokens: number;
  readonly generatedTokens: number;
  /** Computed before it was known that they would be said; and those of them that were. */
  readonly draftedTokens: number;
  readonly acceptedTokens: number;
  readonly preemptions: number;
  readonly evictedCells: number;
  /** By the cost model, for all steps; and what they took. */
  readonly predictedMs: number;
  readonly spentMs: number;
  readonly lastStep: {
    readonly rows: number;
    readonly promptRows: number;
    readonly predictedMs: number;
    readonly spentMs: number;
  };
  /** That compute; fewer while other programs keep the processors busy. */
  readonly threads: number;
  readonly tokensPerSecond: number;
  readonly stepAgeMs: number;
}

export interface NativeLoadOptions {
  /** At most 16,777,216. */
  readonly contextLength?: number;
  /** At most 512. */
  readonly threads?: number;
  /** For long prompts, and for embeddings. Default `threads`. */
  readonly promptThreads?: number;
  readonly gpuLayers?: number;
  readonly maxSequences?: number;
  /** Where prefixes are kept on the disk, of all models together. Absent: nowhere. */
  readonly prefixFolder?: string;
  /** This model's name there: letters and digits. */
  readonly prefixModel?: string;
  /** That all files there may take. */
  readonly prefixBytes?: number;
  /** 32 hexadecimal digits, secret: authenticates the files there. Absent: a random one. */
  readonly prefixKey?: string;
  /** Default `f16`. */
  readonly cacheType?: CacheType;
  /** Of a small model that drafts what this one says next. One that cannot is no error; the info tells. */
  readonly draftPath?: string;
}

export interface NativeQuantizeOptions {
  /** Of a model in parts, the first. */
  readonly input: string;
  /** One file; what is there is written over. */
  readonly output: string;
  /** As `general.file_type` has it. */
  readonly fileType: number;
  /** Default false. */
  readonly allowRequantize?: boolean;
  /** Writes nothing; the log tells the size that it would have. Default false. */
  readonly dryRun?: boolean;
}

/** Of keys and values; `q8_0` takes about half of what `f16` takes. Not every model's shape allows it. */
export type CacheType = 'f16' | 'q8_0';

export interface NativeDeviceMemory {
  /** As NativeDevice's. */
  readonly name: string;
  readonly isHost: boolean;
  readonly weightsBytes: number;
  /** Of the weights: in pages of the file, which the system may drop and read again. */
  readonly mappedBytes: number;
  readonly cacheBytes: number;
  readonly computeBytes: number;
  /** As they were at the call. null: the backend does not measure it; of the host always. */
  readonly freeBytes: number | null;
  readonly totalBytes: number | null;
}

export interface NativeMemoryEstimate {
  readonly contextLength: number;
  /** The host first. */
  readonly devices: readonly NativeDeviceMemory[];
}

export interface NativeMemoryEstimates {
  readonly trainedContextLength: number;
  readonly layers: number;
  readonly makesEmbeddings: boolean;
  /** Of the engine process, beside all that; null: not measured on this system. */
  readonly processBytes: number | null;
  /** One for each context length, in their order. */
  readonly estimates: readonly NativeMemoryEstimate[];
}

/** A load under way, on a thread of its own. The process waits for it. */
export interface NativeLoad {
  readonly done: Promise<NativeEngine>;
  /** `done` then rejects with CANCELLED. */
  cancel(): void;
}

/**
 * A loaded model. The process waits for the generations in it, not for an engine that is idle. One
 * that is forgotten without close() is closed when it is collected; all are closed when the process
 * or the Worker ends.
 */
export interface NativeEngine {
  readonly info: NativeModelInfo;
  /** Both options default to false. */
  tokenize(text: string, options?: { addSpecial?: boolean; parseSpecial?: boolean }): Int32Array;
  detokenize(tokens: Int32Array, options?: { special?: boolean }): string;
  renderChat(messages: readonly { role: string; content: string }[]): string;
  /**
   * Templates and tokenises on a worker thread. Resolves with the number of input tokens, before
   * onStep hears of the generation. The id is free again when onStep has been handed its end.
   */
  submit(request: NativeRequest): Promise<number>;
  /** The same for embeddings. INVALID_REQUEST when the model makes none. */
  embed(request: NativeEmbedRequest): Promise<number>;
  /** Of a generation that is still being submitted too, as pause and resume. Other ids are ignored. */
  cancel(id: number): void;
  pause(id: number): void;
  resume(id: number): void;
  hold(on: boolean): void;
  /** Bounds the prefix files anew. 0: no more are written. */
  setPrefixBytes(bytes: number): void;
  stats(): NativeStats;
  /**
   * Joins the runner thread off the JavaScript thread. Resolves once onStep has heard how the
   * generations ended. Idempotent; afterwards the methods throw ENGINE_UNAVAILABLE.
   */
  close(): Promise<void>;
}

export interface Addon {
  readonly info: {
    readonly version: string;
    /** `linux-x64`. */
    readonly builtFor: string;
    /** llama.cpp's tag. */
    readonly llamaCpp: string;
    readonly llama: 'prebuilt' | 'source';
  };
  /** The class that every error of the addon is thrown as: `new ErrorClass(code, message, { param })`. */
  setErrorClass(errorClass: new (code: never, message: string, options: { param?: string }) => Error): void;
  /**
   * libllama's own log lines, batched to the JavaScript thread; they go to the last logger set in the
   * process. Before the first, nothing is written anywhere.
   */
  setLogger(logger: (level: 'debug' | 'info' | 'warn' | 'error', text: string) => void): void;
  loadBackends(directory: string): void;
  /** Asks the drivers, which may take long, on a worker thread. */
  devices(): Promise<NativeDevice[]>;
  cpuFeatures(): string;
  /** A real matrix product on the device, checked; resolves with GFLOP/s. */
  measureDevice(index: number): Promise<number>;
  /** Linux: the kernel kills this process when `parentPid` dies. Elsewhere: does nothing. On the main thread only. */
  dieWithParent(parentPid: number): void;
  /**
   * Seconds to hours, on a worker thread. Cannot be stopped but with the process, which a damaged file may end. Its
   * progress comes as lines of the logger.
   */
  quantize(options: NativeQuantizeOptions): Promise<void>;
  /**
   * What a load would take, from a dry run that reads the file's metadata only, on a worker thread. The
   * context length of the options is not looked at; 0 in the list is the default.
   */
  estimateMemory(
    path: string,
    options: NativeLoadOptions,
    contextLengths: readonly number[],
  ): Promise<NativeMemoryEstimates>;
  /** Memory of this process that no file backs. null: not measured on this system. */
  privateBytes(): number | null;
  load(
    path: string,
    options: NativeLoadOptions,
    onProgress: (fraction: number) => void,
    onStep: (outputs: NativeOutput[]) => void,
  ): NativeLoad;
}
