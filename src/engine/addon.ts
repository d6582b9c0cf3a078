/**
 * JavaScript interface of the native addon (native/binding). Loaded only in engine processes. Its records have the
 * names of the protocol and of the C++ structs, which list them (native/engine/types/).
 */
import type { EmbedRequest } from '../protocol/embed.ts';
import type { Overflow } from '../protocol/errors.ts';
import type {
  Continuation,
  FinishEvent,
  GenerateRequest,
  Infill,
  Message,
  Repetition,
  Usage,
} from '../protocol/generate.ts';
import type { DeviceRecord, LoadFindings, StepsHealth } from '../protocol/records.ts';
import type { RerankRequest } from '../protocol/rerank.ts';
import type { DetokenizeRequest, TokenizeTextRequest } from '../protocol/tokenize.ts';

/** Memory at the time of the call. null: unknown to the backend, or not measured by it. */
export interface NativeDevice extends DeviceRecord {
  readonly description: string;
}

/** What a loaded model is and can do. */
export interface EngineInfo extends LoadFindings {
  readonly trained_context_length: number;
  /** Longest context of a request, in tokens; for embedding models the longest input. */
  readonly context_length: number;
  readonly vocabulary: number;
  /** Dimension of a hidden state or embedding. */
  readonly embedding_length: number;
  readonly layers: number;
  /** Why the draft model is not used; continues "the draft model …". null: it is used, or there is none. */
  readonly draft_refusal: string | null;
  /** Why the projector is not used; continues "the projector …". null: it is used, or there is none. */
  readonly projector_refusal: string | null;
  /**
   * Adapters of the load, in the same order. `error`: why one is not used; continues "the adapter X …". Empty: it is.
   */
  readonly adapters: readonly { readonly id: string; readonly error: string }[];
  readonly device: string;
}

export interface NativeMessage extends Pick<Message, 'reasoning' | 'tool_calls' | 'tool_call_id'> {
  readonly role: string;
  readonly content: string;
  /** Name of the tool whose result a `tool` message has. */
  readonly tool_name?: string;
  /** Pictures and sounds, in the order in which they stand in `content`. */
  readonly media?: readonly NativeMedia[];
}

export interface NativeMedia {
  readonly type: 'image' | 'audio';
  /** The file as base64. */
  readonly data: string;
  /** Where it stands in `content`, in bytes of UTF-8. */
  readonly at: number;
  /** Its index in the content of the request, which errors name. */
  readonly part: number;
}

export interface NativeTool {
  readonly name: string;
  readonly description: string;
  /** JSON Schema of the arguments, as text. */
  readonly parameters: string;
  /** GBNF rules of the arguments as one JSON object, the root first; empty: any JSON object. */
  readonly grammar: string;
  /** The same as an object in Gemma 4's notation; empty: the schema cannot be enforced in it. */
  readonly tagged_grammar: string;
  /**
   * The arguments each on its own, in their order; absent: they are not a list of names. Their rules are in `grammar`.
   */
  readonly arguments?: readonly NativeArgument[];
  /** true: refused if the model's format of calls cannot enforce the schema. */
  readonly strict: boolean;
}

/** How the value of one argument may be written. Strings are bare in some formats: without quotes and escapes. */
export interface NativeArgument {
  readonly name: string;
  readonly required: boolean;
  /** Rule of the value as JSON. */
  readonly json: string;
  /** Any bare text is a valid string. */
  readonly any_text: boolean;
  /** Otherwise, rule of the strings as bare text without `<`; empty: there are none, or they cannot be enforced. */
  readonly text: string;
  /** Rule of the values that are not strings, as JSON; empty: there are none. */
  readonly other: string;
  /** A bare text that happens to be JSON of one of the other types is valid, too. */
  readonly text_may_be_json: boolean;
  /** No value is a string, an object or a list. */
  readonly scalar: boolean;
}

/** How a chat is rendered and its answer read, besides its messages. */
export interface NativeChat extends Pick<
  GenerateRequest,
  'parallel_tool_calls' | 'reasoning_effort' | 'reasoning_budget_tokens'
> {
  readonly tools?: readonly NativeTool[];
  /** Rules to which the grammars of the tools refer, as JSON and in Gemma 4's notation. */
  readonly any_grammar?: string;
  readonly any_tagged_grammar?: string;
  readonly tool_choice?: string;
  /** The one tool to call. */
  readonly tool_name?: string;
  /** Names, and values as JSON. */
  readonly template_variables?: readonly (readonly [name: string, json: string])[];
  /** The last message, which is the assistant's, is continued. */
  readonly continue_last?: boolean;
}

/**
 * A generation request as an engine gets it, in the frame and through the addon: the protocol's own object, with what
 * the daemon has made of the fields that are left out here.
 */
export interface EngineRequest extends Partial<
  Omit<
    GenerateRequest,
    'messages' | 'format' | 'raw' | 'default_max_tokens' | keyof NativeChat | 'chat_template_kwargs'
  >
> {
  readonly id: number;
  /** Either these, or a raw prompt. Text parts are joined. */
  readonly messages?: readonly NativeMessage[];
  readonly chat?: NativeChat;
  /** Special-token text is parsed, and BOS is added if the model requires it. */
  readonly prompt?: string;
  /** Tokens of a raw prompt, which are used unchanged; without `prompt`. */
  readonly prompt_tokens?: readonly number[];
  /** The gap that the answer fills; it begins with `prompt`. */
  readonly infill?: Infill;
  readonly continuation?: Continuation;
  /** Default true: reuses cached prefixes of the prompt. Ignored if a seed is set. */
  readonly reuse_prefix?: boolean;
  /** Requests of one group that run at the same time share a prompt, also with seeds. */
  readonly prefix_group?: string;
  /** The client's share. `cached_tokens` counts only tokens that the same share sent before. */
  readonly share?: string;
  /** Default false. true: prefixes are reused only between requests of the same share. */
  readonly own_prefixes?: boolean;
  /** GBNF grammar of the text, made of `format`. Forced tokens are not computed, unless `logprobs` is set. */
  readonly grammar?: string;
}

/** From the model's own distribution, before samplers change it. */
export interface NativeLogprob {
  /** Latin-1: one character per byte. */
  readonly bytes: string;
  readonly logprob: number;
}

/** An embedding request as an engine gets it; the addon takes token ids only as an Int32Array. */
export interface EngineEmbedRequest<Tokens = Int32Array> extends Pick<EmbedRequest, 'truncate'> {
  /** Shares the id space of generations. */
  readonly id: number;
  readonly input: readonly (string | Tokens)[];
}

/** A reranking request as an engine gets it. */
export interface EngineRerankRequest extends Pick<
  RerankRequest,
  'query' | 'documents' | 'max_document_tokens' | 'truncate'
> {
  /** Shares the id space of generations. */
  readonly id: number;
}

/** A request to tokenize as an engine gets it: a text, or a request to generate, which is only rendered. */
export type EngineTokenizeRequest =
  | (Pick<TokenizeTextRequest, 'text' | 'add_special' | 'parse_special' | 'pieces'> & {
      /** Shares the id space of generations. */
      readonly id: number;
    })
  | EngineRequest;

/** Each kind of request without its id. */
export type WithoutId<Request> = Request extends unknown ? Omit<Request, 'id'> : never;

/** A request to detokenize as an engine gets it. */
export interface EngineDetokenizeRequest extends Pick<DetokenizeRequest, 'tokens' | 'special'> {
  /** Shares the id space of generations. */
  readonly id: number;
}

/** The prompt of a generation. */
export interface NativePrompt {
  /** Text of the chat as the template renders it; of a raw prompt the text of its tokens. */
  readonly prompt: string;
  /** Negative: a row of a picture or sound. */
  readonly tokens: readonly number[];
}

/** The end of a generation or a request for embeddings, scores or tokens. */
export interface EngineFinish extends Pick<FinishEvent, 'reason' | 'stop_string'> {
  readonly usage: Usage;
  /** Milliseconds since submit; null: it did not happen. */
  readonly timings: {
    readonly started_ms: number | null;
    readonly first_token_ms: number | null;
    readonly finished_ms: number;
  };
  readonly repetition?: Repetition;
}

/** Part of a tool call. The first part of an index has the name, and the model's id if it writes one. */
export interface NativeToolCallPart {
  readonly index: number;
  readonly id: string;
  readonly name: string;
  readonly arguments: string;
}

/** What an error has besides code and message. */
export interface NativeErrorDetails {
  readonly param?: string;
  readonly overflow?: Overflow;
}

/** Output of one request in one step, in the frame and from the addon. */
export interface EngineOutput {
  readonly id: number;
  /** Empty if the step only finished the request. */
  readonly text: string;
  readonly reasoning?: string;
  readonly tool_calls?: readonly NativeToolCallPart[];
  /** For the tokens that begin in `text`. */
  readonly logprobs?: readonly (NativeLogprob & { readonly top: readonly NativeLogprob[] })[];
  /** Only with a continuation: the tokens since the last output. */
  readonly tokens?: readonly number[];
  readonly finish?: EngineFinish;
  readonly error?: { readonly code: string; readonly message: string } & NativeErrorDetails;
}

/** Number of KV-cache cells that a generation needs to continue. */
export interface CellDemand {
  /** For its next token. */
  readonly least: number;
  /** For its answer, as far as can be expected. */
  readonly wanted: number;
}

/** From the addon. The frames have the vectors, as raw bytes, and the demand separately. */
export interface NativeOutput extends EngineOutput {
  /** The generation waits until `grantCells` has answered. */
  readonly cells?: CellDemand;
  /** Vectors of the next inputs, concatenated; scores are vectors of one number. */
  readonly embeddings?: Float32Array;
}

/** Counters start when the model is loaded. */
export interface NativeStats {
  readonly active: number;
  readonly waiting: number;
  /** KV-cache cells of running generations. */
  readonly kv_cells_used: number;
  /** KV-cache cells of cached prefixes; evicted when needed. */
  readonly kv_cells_cached: number;
  readonly kv_cells_total: number;
  /** Tokens of prefixes swapped out of the cells to host memory. */
  readonly kv_tokens_swapped: number;
  /** `rows` include padding; the times are not rounded. */
  readonly steps: StepsHealth;
  readonly last_step: {
    readonly rows: number;
    readonly prompt_rows: number;
    readonly predicted_ms: number;
    readonly spent_ms: number;
  };
  /** 0: idle. */
  readonly tokens_per_second: number;
  readonly step_age_ms: number;
  /** Operations that the CPU has computed for steps since the process began. */
  readonly operations: number;
}

export interface NativeLoadOptions {
  /** Longest context of a request. At most 16,777,216. */
  readonly context_length?: number;
  /** KV-cache cells to begin with; the cache grows up to `context_length`. Default: all of them. */
  readonly kv_cells?: number;
  /** At most 512. */
  readonly threads?: number;
  /** Threads for long prompts and embeddings. Default `threads`. */
  readonly prompt_threads?: number;
  readonly gpu_layers?: number;
  /** GPU that gets these layers: its name, or its number. Absent: all GPUs share them. */
  readonly main_gpu?: string;
  /** Share of each GPU in the layers. Absent: by their free memory. */
  readonly tensor_split?: readonly number[];
  /** Layers whose experts stay in host memory, from the first on. Default 0. */
  readonly cpu_experts?: number;
  readonly max_sequences?: number;
  /** Directory of the prefix cache's disk tier. Absent: no disk tier. */
  readonly prefix_folder?: string;
  /** This model's file-name prefix there: letters and digits. */
  readonly prefix_model?: string;
  /** Size limit of all files there. */
  readonly prefix_bytes?: number;
  /** Secret that authenticates the files there: 32 hexadecimal digits. Absent: a random one. */
  readonly prefix_key?: string;
  /** Default `f16`. */
  readonly cache_type?: CacheType;
  /** As in NativeMemoryEstimates: the copies of states in memory have room for two of the longest. */
  readonly state_fixed_bytes?: number;
  readonly state_token_bytes?: number;
  /** Path of a draft model. If it cannot be used, the load succeeds and `draft_refusal` says why. */
  readonly draft_path?: string;
  /** Path of a projector. If it cannot be used, the load succeeds and `projector_refusal` says why. */
  readonly projector_path?: string;
  /**
   * LoRA adapters that requests may choose by `lora`. If one cannot be used, the load succeeds and `adapters` says why.
   */
  readonly adapters?: readonly { readonly id: string; readonly path: string }[];
}

export interface NativeQuantizeOptions {
  /** For a model in parts, the first part. */
  readonly input: string;
  /** A single file, overwritten if it exists. */
  readonly output: string;
  /** Value of `general.file_type`. */
  readonly file_type: number;
  /** Default false. */
  readonly allow_requantize?: boolean;
  /** Writes nothing; the log reports the resulting size. Default false. */
  readonly dry_run?: boolean;
}

/** Type of the cached keys and values; `q8_0` needs about half the memory of `f16`. Not every model supports it. */
export type CacheType = 'f16' | 'q8_0';

export interface NativeDeviceMemory {
  /** Same as NativeDevice.name. */
  readonly name: string;
  readonly is_host: boolean;
  readonly weights_bytes: number;
  /** Part of the weights in mapped pages of the file, which the system may drop and reread. */
  readonly mapped_bytes: number;
  readonly cache_bytes: number;
  readonly compute_bytes: number;
  /** At the time of the call. null: not measured by the backend; always null for the host. */
  readonly free_bytes: number | null;
  readonly total_bytes: number | null;
}

export interface NativeMemoryEstimate {
  readonly context_length: number;
  /** The host first. */
  readonly devices: readonly NativeDeviceMemory[];
}

export interface NativeMemoryEstimates {
  readonly trained_context_length: number;
  readonly layers: number;
  /** True for a mixture of experts. */
  readonly has_experts: boolean;
  readonly makes_embeddings: boolean;
  /** The rest of the engine process; null: not measured on this system. */
  readonly process_bytes: number | null;
  /** Size of a sequence's state: a fixed part, and a part for each token. 0 if sequences can share cells. */
  readonly state_fixed_bytes: number;
  readonly state_token_bytes: number;
  /** One per context length, in the same order. */
  readonly estimates: readonly NativeMemoryEstimate[];
}

/**
 * A loaded model. Running generations keep the process alive, an idle engine does not. An engine without close() is
 * closed when it is garbage-collected; all are closed when the process or Worker ends.
 */
export interface NativeEngine {
  readonly info: EngineInfo;
  /** Without `special`, control tokens have no text. */
  detokenize(tokens: Int32Array, options?: { special?: boolean }): string;
  /** The text's tokens, found on a worker thread. Both options default to false. */
  encode(text: string, options?: { addSpecial?: boolean; parseSpecial?: boolean }): Promise<readonly number[]>;
  /** Bytes of each token as Latin-1, those of control tokens too. */
  pieces(tokens: Int32Array): readonly string[];
  /**
   * The prompt that `submit` would make of this request, on a worker thread. It may be longer than the context and is
   * not truncated. INVALID_REQUEST as from `submit`.
   */
  render(request: EngineRequest): Promise<NativePrompt>;
  /**
   * Applies the chat template and tokenizes on a worker thread. Resolves with the number of input tokens, before onStep
   * gets the first output. The id may be reused once onStep has got the finish.
   */
  submit(request: EngineRequest): Promise<number>;
  /** Like `submit`, for embeddings. INVALID_REQUEST if the model is not an embedding model. */
  embed(request: EngineEmbedRequest): Promise<number>;
  /** Like `submit`, for scores. INVALID_REQUEST if the model ranks nothing. */
  rerank(request: EngineRerankRequest): Promise<number>;
  /** Like pause and resume, also works on a generation that is still being submitted. Unknown ids are ignored. */
  cancel(id: number): void;
  pause(id: number): void;
  resume(id: number): void;
  hold(on: boolean): void;
  /** Answers a CellDemand. `refusal`: why the cells are too few for it; empty if they are enough. */
  grantCells(cells: number, refusal: string): void;
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
  /** Sets the class of all errors that the addon throws: `new ErrorClass(code, message, details)`. */
  setErrorClass(errorClass: new (code: never, message: string, details: NativeErrorDetails) => Error): void;
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
   * `options.context_length` and `kv_cells`; 0 in the list is the default.
   */
  estimateMemory(
    path: string,
    options: NativeLoadOptions,
    contextLengths: readonly number[],
  ): Promise<NativeMemoryEstimates>;
  /** Memory of this process not backed by files. null: not measured on this system. */
  privateBytes(): number | null;
  /** Loads on a thread of its own. It keeps the process alive. */
  load(
    path: string,
    options: NativeLoadOptions,
    onProgress: (fraction: number) => void,
    onStep: (outputs: NativeOutput[]) => void,
  ): Promise<NativeEngine>;
}
