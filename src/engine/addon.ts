/** JavaScript interface of the native addon (native/binding). Loaded only in engine processes. */
import type { FinishReason } from '../protocol/generate.ts';

export interface NativeDevice {
  readonly name: string;
  readonly description: string;
  readonly backend: string;
  readonly type: 'cpu' | 'gpu' | 'igpu' | 'accel';
  /** null: unknown to the backend. */
  readonly memoryTotalBytes: number | null;
  /** At the time of the call; null: not measured by the backend. */
  readonly memoryFreeBytes: number | null;
}

export interface NativeModelInfo {
  readonly description: string;
  readonly architecture: string;
  readonly quantization: string;
  readonly parameters: number;
  readonly sizeBytes: number;
  readonly trainedContextLength: number;
  /** KV-cache cells of this engine; for embedding models the longest input, in tokens. */
  readonly contextLength: number;
  readonly vocabulary: number;
  /** Dimension of a hidden state or embedding. */
  readonly embeddingLength: number;
  readonly layers: number;
  readonly threads: number;
  readonly hasChatTemplate: boolean;
  /** True for an embedding model, which generates no text. */
  readonly makesEmbeddings: boolean;
  /** Why the draft model is not used; continues "the draft model …". null: it is used, or there is none. */
  readonly draftRefusal: string | null;
  readonly device: string;
  readonly metadata: Readonly<Record<string, string>>;
}

export interface NativeRequest {
  readonly id: number;
  readonly messages?: readonly { readonly role: string; readonly content: string }[];
  readonly prompt?: string;
  readonly maxTokens?: number;
  /** Default false: a prompt that does not fit in the context is refused. true: its oldest turns are dropped. */
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
  /** Default `interactive`. `batch` yields to it, but is not starved. */
  readonly priority?: 'interactive' | 'batch';
  /** Default true: reuses cached prefixes of the prompt. Ignored if `seed` is set. */
  readonly cachePrompt?: boolean;
  /** The client's share. `cachedTokens` counts only tokens that the same share sent before. */
  readonly share?: string;
  /** Default false. true: prefixes are reused only between requests of the same share. */
  readonly ownPrefixes?: boolean;
  /** Default true. false: prompt and answer are not written to disk. */
  readonly store?: boolean;
  /** GBNF grammar of the text. Forced tokens are not computed, unless `logprobs` is set. */
  readonly grammar?: string;
  /** Number of alternatives to return per token, 0 to 20. Absent: no log probabilities. */
  readonly logprobs?: number;
}

/** From the model's own distribution, before samplers change it. */
export interface NativeLogprob {
  /** Latin-1: one character per byte. */
  readonly bytes: string;
  readonly logprob: number;
}

export interface NativeEmbedRequest {
  /** Shares the id space of generations. */
  readonly id: number;
  /** Texts, or token ids, which are used unchanged. */
  readonly inputs: readonly (string | Int32Array)[];
  /** Default false: an input that is too long is refused. true: its end is cut off. */
  readonly truncate?: boolean;
}

/** The end of a generation or a request for embeddings. */
export interface NativeFinish {
  readonly reason: FinishReason;
  readonly inputTokens: number;
  readonly outputTokens: number;
  readonly cachedTokens: number;
  /** Not counted in inputTokens. Absent: the request did not allow truncation. */
  readonly truncatedTokens?: number;
  /** Milliseconds since submit; null: it did not happen. */
  readonly startedMs: number | null;
  readonly firstTokenMs: number | null;
  readonly finishedMs: number;
}

/** Output of one generation or embedding request in one step. */
export interface NativeOutput {
  readonly id: number;
  /** Empty if the step only finished the generation. */
  readonly text: string;
  /** Vectors of the next inputs, concatenated. */
  readonly embeddings?: Float32Array;
  /** For the tokens that begin in `text`. */
  readonly logprobs?: readonly (NativeLogprob & { readonly top: readonly NativeLogprob[] })[];
  readonly finish?: NativeFinish;
  readonly error?: { readonly code: string; readonly message: string; readonly param?: string };
}

/** Counters start when the model is loaded. */
export interface NativeStats {
  readonly active: number;
  readonly waiting: number;
  /** KV-cache cells of running generations. */
  readonly cellsUsed: number;
  /** KV-cache cells of cached prefixes; evicted when needed. */
  readonly cellsCached: number;
  readonly cellsTotal: number;
  /** Tokens of prefixes swapped out of the cells to host memory. */
  readonly swappedTokens: number;
  readonly steps: number;
  /** Batch rows of all steps, including padding. */
  readonly rows: number;
  /** Prompt tokens computed. `cachedTokens`: prompt tokens taken from the prefix cache. */
  readonly promptTokens: number;
  readonly cachedTokens: number;
  readonly generatedTokens: number;
  /** Draft tokens verified in a batch (speculative decoding). `acceptedTokens`: those accepted. */
  readonly draftedTokens: number;
  readonly acceptedTokens: number;
  readonly preemptions: number;
  readonly evictedCells: number;
  /** Time of all steps: predicted by the cost model, and measured (`spentMs`). */
  readonly predictedMs: number;
  readonly spentMs: number;
  readonly lastStep: {
    readonly rows: number;
    readonly promptRows: number;
    readonly predictedMs: number;
    readonly spentMs: number;
  };
  /** Compute threads in use; fewer while other programs keep the CPU busy. */
  readonly threads: number;
  readonly tokensPerSecond: number;
  readonly stepAgeMs: number;
}

export interface NativeLoadOptions {
  /** At most 16,777,216. */
  readonly contextLength?: number;
  /** At most 512. */
  readonly threads?: number;
  /** Threads for long prompts and embeddings. Default `threads`. */
  readonly promptThreads?: number;
  readonly gpuLayers?: number;
  readonly maxSequences?: number;
  /** Directory of the prefix cache's disk tier, shared by all models. Absent: no disk tier. */
  readonly prefixFolder?: string;
  /** This model's file-name prefix there: letters and digits. */
  readonly prefixModel?: string;
  /** Size limit of all files there. */
  readonly prefixBytes?: number;
  /** Secret that authenticates the files there: 32 hexadecimal digits. Absent: a random one. */
  readonly prefixKey?: string;
  /** Default `f16`. */
  readonly cacheType?: CacheType;
  /** Path of a draft model. If it cannot be used, the load succeeds and `draftRefusal` says why. */
  readonly draftPath?: string;
}

export interface NativeQuantizeOptions {
  /** For a model in parts, the first part. */
  readonly input: string;
  /** A single file, overwritten if it exists. */
  readonly output: string;
  /** Value of `general.file_type`. */
  readonly fileType: number;
  /** Default false. */
  readonly allowRequantize?: boolean;
  /** Writes nothing; the log reports the resulting size. Default false. */
  readonly dryRun?: boolean;
}

/** Type of the cached keys and values; `q8_0` needs about half the memory of `f16`. Not every model supports it. */
export type CacheType = 'f16' | 'q8_0';

export interface NativeDeviceMemory {
  /** Same as NativeDevice.name. */
  readonly name: string;
  readonly isHost: boolean;
  readonly weightsBytes: number;
  /** Part of the weights in mapped pages of the file, which the system may drop and reread. */
  readonly mappedBytes: number;
  readonly cacheBytes: number;
  readonly computeBytes: number;
  /** At the time of the call. null: not measured by the backend; always null for the host. */
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
  /** The rest of the engine process; null: not measured on this system. */
  readonly processBytes: number | null;
  /** One per context length, in the same order. */
  readonly estimates: readonly NativeMemoryEstimate[];
}

/** A load in progress on its own thread. It keeps the process alive. */
export interface NativeLoad {
  readonly done: Promise<NativeEngine>;
  /** Makes `done` reject with CANCELLED. */
  cancel(): void;
}

/**
 * A loaded model. Running generations keep the process alive, an idle engine does not. An engine without close() is
 * closed when it is garbage-collected; all are closed when the process or Worker ends.
 */
export interface NativeEngine {
  readonly info: NativeModelInfo;
  /** Both options default to false. */
  tokenize(text: string, options?: { addSpecial?: boolean; parseSpecial?: boolean }): Int32Array;
  detokenize(tokens: Int32Array, options?: { special?: boolean }): string;
  renderChat(messages: readonly { role: string; content: string }[]): string;
  /**
   * Applies the chat template and tokenizes on a worker thread. Resolves with the number of input tokens, before onStep
   * gets the first output. The id may be reused once onStep has got the finish.
   */
  submit(request: NativeRequest): Promise<number>;
  /** Like `submit`, for embeddings. INVALID_REQUEST if the model is not an embedding model. */
  embed(request: NativeEmbedRequest): Promise<number>;
  /** Like pause and resume, also works on a generation that is still being submitted. Unknown ids are ignored. */
  cancel(id: number): void;
  pause(id: number): void;
  resume(id: number): void;
  hold(on: boolean): void;
  /** Changes the size limit of the prefix files. 0: writes no more. */
  setPrefixBytes(bytes: number): void;
  stats(): NativeStats;
  /**
   * Joins the runner thread, off the JavaScript thread. Resolves once onStep has got the end of every generation.
   * Idempotent; afterwards all methods throw ENGINE_UNAVAILABLE.
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
  /** Sets the class of all errors that the addon throws: `new ErrorClass(code, message, { param })`. */
  setErrorClass(errorClass: new (code: never, message: string, options: { param?: string }) => Error): void;
  /**
   * Receives libllama's log lines, batched on the JavaScript thread. The last logger set in the process gets them;
   * until one is set they are dropped.
   */
  setLogger(logger: (level: 'debug' | 'info' | 'warn' | 'error', text: string) => void): void;
  loadBackends(directory: string): void;
  /** Queries the drivers on a worker thread; may take long. */
  devices(): Promise<NativeDevice[]>;
  cpuFeatures(): string;
  /** Runs a matrix product on the device and checks it; resolves with GFLOP/s. */
  measureDevice(index: number): Promise<number>;
  /** Linux: the kernel kills this process when `parentPid` dies. Elsewhere: does nothing. Main thread only. */
  dieWithParent(parentPid: number): void;
  /**
   * Runs for seconds to hours on a worker thread. Only killing the process stops it; a damaged file may crash it.
   * Progress is reported as log lines.
   */
  quantize(options: NativeQuantizeOptions): Promise<void>;
  /**
   * Estimates the memory of a load in a dry run on a worker thread, which reads only the file's metadata. Ignores
   * `options.contextLength`; 0 in the list is the default.
   */
  estimateMemory(
    path: string,
    options: NativeLoadOptions,
    contextLengths: readonly number[],
  ): Promise<NativeMemoryEstimates>;
  /** Memory of this process not backed by files. null: not measured on this system. */
  privateBytes(): number | null;
  load(
    path: string,
    options: NativeLoadOptions,
    onProgress: (fraction: number) => void,
    onStep: (outputs: NativeOutput[]) => void,
  ): NativeLoad;
}
