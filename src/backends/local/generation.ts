/**
 * One request on the daemon's side: turns what the engine pushes into the protocol's events, and buffers it until the
 * consumer pulls.
 *
 * Adjacent pieces of the same kind are joined, so a slow consumer gets longer pieces, not a longer queue.
 * Back-pressure: above PAUSE_CHARACTERS the engine pauses this generation; the next pull takes everything and resumes
 * it. A failure discards buffered text, because text that was not sent must not prevent a retry. Vectors and scores are
 * bounded by their request and pause nothing.
 *
 * An engine that ignores a pause, or sends more than was requested, is killed: it no longer runs the code that we loaded
 * into it. Everything of an answer that is kept counts in characters: a text by its length, and events, tokens and log
 * probabilities by a constant each. One bound is for what waits for the consumer. The other is for the whole answer,
 * which a consumer may collect; it follows from the number of tokens that the request and the context allow.
 */
import { randomInt } from 'node:crypto';
import type {
  EngineFinish,
  EngineOutput,
  EngineRequest,
  NativeLogprob,
  NativeToolCallPart,
} from '../../engine/addon.ts';
import type { ToEngine } from '../../engine/messages.ts';
import type { VectorsEvent } from '../../protocol/embed.ts';
import { SvcError, type ErrorRecord } from '../../protocol/errors.ts';
import type {
  FinishEvent,
  ReasoningEvent,
  StartEvent,
  TextEvent,
  TokenLogprobs,
  ToolCallEvent,
} from '../../protocol/generate.ts';
import { given } from '../../protocol/given.ts';
import { LIMITS } from '../../protocol/limits.ts';
import type { ScoresEvent } from '../../protocol/rerank.ts';
import type { TokensEvent } from '../../protocol/tokenize.ts';
import { toFinishEvent, toLogprobs } from './request.ts';

/** About a thousand tokens, or forty with twenty alternatives each: enough for any consumer that keeps up. */
const PAUSE_CHARACTERS = 4 * 1024;
const PAUSE_LOGPROBS = 64 * 1024;
/** Far more than an engine can have in flight when it is paused. */
const MOST_CHARACTERS = 4 * 1024 * 1024;
/** Costs in characters. */
const EVENT_COST = 64;
const TOKEN_COST = 8;
const LOGPROB_COST = 32;
/** Cost of a byte of a token with a log probability: the byte is kept as a number. */
const BYTE_COST = 8;
/** Twice the bytes of the longest tokens in use, which are runs of white space. A model may repeat such a token. */
const LONGEST_TOKEN = 256;
/** Bounds of the cost of a token with its events, and of each candidate with a log probability. */
const MOST_PER_TOKEN = LONGEST_TOKEN + EVENT_COST + TOKEN_COST;
const MOST_PER_CANDIDATE = LOGPROB_COST + BYTE_COST * LONGEST_TOKEN;

export interface AnswerOwner {
  send(message: ToEngine): void;
  /** From now on the engine's outputs for this id are ignored. */
  release(id: number): void;
  /** Reports a protocol violation of the engine; `what` continues "the engine of X …". */
  offend(what: string): void;
}

/** What the events contain besides the engine's output. */
export interface AnswerHead {
  /** Id of the model in the request. */
  readonly model: string;
  /** `performance.now()` when the request arrived. */
  readonly arrivedAt: number;
}

/** `Content`: the events between `start` and `finish`. */
export abstract class EngineAnswer<Content extends ContentEvent> {
  readonly id: number;
  /** The model computes it: its end shows that the engine works. */
  readonly isComputed: boolean = true;
  protected readonly owner: AnswerOwner;
  #accepted = false;
  #inputTokens: number | undefined;
  /** `at`: performance.now() when it arrived. */
  #end: { readonly finish: EngineFinish; readonly at: number } | { readonly error: SvcError } | undefined;
  /** The engine violated the protocol and is being killed: its further output is dropped. */
  #isOffended = false;
  #wake: () => void = () => undefined;

  constructor(id: number, owner: AnswerOwner) {
    this.id = id;
    this.owner = owner;
  }

  /** The engine has admitted the request. `inputTokens`: those of its prompt, if it generates text. */
  accept(inputTokens?: number): void {
    this.#accepted = true;
    this.#inputTokens ??= inputTokens;
    this.#wake();
  }

  push(output: EngineOutput): void {
    if (output.error !== undefined) this.fail(SvcError.fromRecord(output.error as ErrorRecord));
    if (this.#end !== undefined || this.#isOffended) return;
    const offence = this.add?.(output);
    if (offence !== undefined) return this.#offend(offence);
    if (output.finish !== undefined) this.#end = { finish: output.finish, at: performance.now() };
    this.accept();
  }

  /** Vectors of the next inputs, concatenated; or scores. */
  pushVectors(numbers: Float32Array): void {
    if (this.addVectors?.(numbers) === true) this.accept();
    else this.#offend('sent vectors that were not requested');
  }

  /** All tokens of the input. */
  pushTokens(tokens: Omit<TokensEvent, 'type'>): void {
    if (this.addTokens?.(tokens) === true) this.accept();
    else this.#offend('sent tokens that were not requested');
  }

  #offend(what: string): void {
    if (this.#isOffended) return;
    this.#isOffended = true;
    this.owner.offend(what);
  }

  fail(error: SvcError): void {
    this.#end ??= { error };
    this.#wake();
  }

  /** Call once. Ends after `finish`, or throws. Returning early or aborting cancels the request in the engine. */
  async *events(
    signal: AbortSignal,
    { model, arrivedAt }: AnswerHead,
  ): AsyncGenerator<StartEvent | Content | FinishEvent, void, undefined> {
    let announced = false;
    const onAbort = (): void => this.#wake();
    signal.addEventListener('abort', onAbort);
    try {
      for (;;) {
        signal.throwIfAborted();
        if (this.#end !== undefined && 'error' in this.#end) throw this.#end.error;
        const content = this.#accepted && announced ? this.take() : undefined;
        if (this.#accepted && !announced) {
          announced = true;
          yield { type: 'start', model, provider: 'local', ...given({ input_tokens: this.#inputTokens }) };
        } else if (content !== undefined) {
          yield content;
        } else if (this.#end !== undefined) {
          yield toFinishEvent(this.#end.finish, arrivedAt, this.#end.at);
          return;
        } else {
          await new Promise<void>((resolve) => {
            this.#wake = resolve;
          });
        }
      }
    } finally {
      signal.removeEventListener('abort', onAbort);
      if (this.#end === undefined) this.owner.send({ type: 'cancel', id: this.id });
      this.owner.release(this.id);
    }
  }

  /** Buffers the content of an output. Returns how the engine has offended, if it has. Absent: outputs have none. */
  protected add?(output: EngineOutput): string | undefined;
  /** Buffers vectors. Returns false if these were not requested. Absent: the answer has none. */
  protected addVectors?(numbers: Float32Array): boolean;
  /** Buffers tokens. Returns false if these were not requested. Absent: the answer has none. */
  protected addTokens?(tokens: Omit<TokensEvent, 'type'>): boolean;
  /** Takes the next event out of the buffer; undefined: it is empty. */
  protected abstract take(): Content | undefined;
}

/** Characters of ids that every template accepts: some want nine letters and digits. */
const ID_ALPHABET = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789';

function newCallId(): string {
  return Array.from({ length: 9 }, () => ID_ALPHABET[randomInt(ID_ALPHABET.length)]).join('');
}

export type PieceEvent = TextEvent | ReasoningEvent | ToolCallEvent;
/** Events between `start` and `finish`, of requests of any kind. */
export type ContentEvent = PieceEvent | VectorsEvent | ScoresEvent | TokensEvent;

/** An event to which the next output may add. */
type WaitingEvent =
  | { readonly type: 'text' | 'reasoning'; text: string; readonly logprobs: TokenLogprobs[] }
  | (Omit<ToolCallEvent, 'arguments'> & { arguments: string });

function toEvent(event: WaitingEvent): PieceEvent {
  if (event.type === 'tool_call') return event;
  const { type, text, logprobs } = event;
  return { type, text, ...(logprobs.length === 0 ? {} : { logprobs }) };
}

/** What bounds an answer. */
export interface AnswerBounds {
  readonly request: Pick<EngineRequest, 'max_tokens' | 'logprobs' | 'continuation'>;
  /** Longest context of the engine, in tokens. */
  readonly contextLength: number;
}

/** Upper bound of the cost of a whole answer. */
function mostOf({ request, contextLength }: AnswerBounds): number {
  const tokens = Math.min(request.max_tokens ?? contextLength, contextLength, LIMITS.maxTokens);
  const candidates = request.logprobs === undefined ? 0 : 1 + request.logprobs;
  return MOST_CHARACTERS + tokens * (MOST_PER_TOKEN + candidates * MOST_PER_CANDIDATE);
}

const costOf = ({ bytes }: NativeLogprob): number => LOGPROB_COST + BYTE_COST * bytes.length;

export class Generation extends EngineAnswer<PieceEvent> {
  readonly #isListed: boolean;
  readonly #hasLogprobs: boolean;
  readonly #events: WaitingEvent[] = [];
  /** Tokens that no event has listed yet. */
  #tokens: number[] = [];
  /** Costs of what waits. */
  #characters = 0;
  #logprobs = 0;
  /** Cost that the answer may still have. */
  #left: number;
  #calls = 0;
  #paused = false;

  constructor(id: number, owner: AnswerOwner, bounds: AnswerBounds) {
    super(id, owner);
    this.#isListed = bounds.request.continuation !== undefined;
    this.#hasLogprobs = bounds.request.logprobs !== undefined;
    this.#left = mostOf(bounds);
  }

  protected override add(output: EngineOutput): string | undefined {
    const { text, reasoning = '', tool_calls = [], logprobs = [], tokens = [], finish } = output;
    if (tokens.length > 0 && !this.#isListed) return 'sent tokens that were not requested';
    if (logprobs.length > 0 && !this.#hasLogprobs) return 'sent log probabilities that were not requested';
    const before = this.#characters + this.#logprobs;
    this.#listTokens(tokens);
    this.#append('reasoning', reasoning, []);
    this.#append('text', text, logprobs);
    if (!tool_calls.every((part) => this.#addCall(part))) return 'sent a part of a tool call that it had not begun';
    const waiting = this.#characters + this.#logprobs;
    this.#left -= waiting - before;
    if (waiting > MOST_CHARACTERS) return 'continued an answer that it had to pause';
    if (this.#left < 0) return 'sent more than the answer can have';
    const isFull = this.#characters > PAUSE_CHARACTERS || this.#logprobs > PAUSE_LOGPROBS;
    // Only an event resumes it.
    if (finish === undefined && !this.#paused && isFull && this.#events.length > 0) {
      this.#paused = true;
      this.owner.send({ type: 'pause', id: this.id });
    }
    return undefined;
  }

  #listTokens(tokens: readonly number[]): void {
    this.#characters += tokens.length * TOKEN_COST;
    for (const token of tokens) this.#tokens.push(token);
  }

  #append(type: 'text' | 'reasoning', text: string, logprobs: NonNullable<EngineOutput['logprobs']>): void {
    if (text === '' && logprobs.length === 0) return;
    this.#characters += text.length;
    for (const { top, ...chosen } of logprobs) {
      this.#logprobs += top.reduce((sum, each) => sum + costOf(each), costOf(chosen));
    }
    const last = this.#events.at(-1);
    if (last?.type === type) {
      last.text += text;
      last.logprobs.push(...toLogprobs(logprobs));
      return;
    }
    this.#push({ type, text, logprobs: toLogprobs(logprobs) });
  }

  /** Returns false if the part belongs to no call. */
  #addCall({ index, id, name, arguments: text }: NativeToolCallPart): boolean {
    const isFirst = index === this.#calls;
    if (isFirst !== (name !== '') || index > this.#calls) return false;
    if (isFirst) this.#calls += 1;
    this.#characters += text.length + name.length + (isFirst ? id.length : 0);
    const last = this.#events.at(-1);
    if (last?.type === 'tool_call' && last.index === index) {
      last.arguments += text;
    } else {
      const begin = isFirst ? { id: id === '' ? newCallId() : id, name } : {};
      this.#push({ type: 'tool_call', index, ...begin, arguments: text });
    }
    return true;
  }

  #push(event: WaitingEvent): void {
    this.#characters += EVENT_COST;
    this.#events.push(event);
  }

  protected override take(): PieceEvent | undefined {
    const event = this.#events.shift();
    if (event === undefined) return undefined;
    const tokens = this.#tokens.splice(0);
    const listed = { ...toEvent(event), ...(tokens.length === 0 ? {} : { tokens }) };
    if (this.#events.length > 0) return listed;
    this.#characters = 0;
    this.#logprobs = 0;
    if (this.#paused) {
      this.#paused = false;
      this.owner.send({ type: 'resume', id: this.id });
    }
    return listed;
  }
}

export class Embedding extends EngineAnswer<VectorsEvent> {
  readonly #length: number;
  readonly #vectors: Float32Array[] = [];
  /** Numbers still to be received. */
  #numbersLeft: number;

  /** `inputs`: number of vectors requested; `length`: numbers in each. */
  constructor(id: number, owner: AnswerOwner, inputs: number, length: number) {
    super(id, owner);
    this.#length = length;
    this.#numbersLeft = inputs * length;
  }

  protected override addVectors(numbers: Float32Array): boolean {
    this.#numbersLeft -= numbers.length;
    if (this.#numbersLeft < 0 || numbers.length % this.#length !== 0) return false;
    for (let at = 0; at < numbers.length; at += this.#length) {
      this.#vectors.push(numbers.subarray(at, at + this.#length));
    }
    return true;
  }

  protected override take(): VectorsEvent | undefined {
    if (this.#vectors.length === 0) return undefined;
    return { type: 'vectors', vectors: this.#vectors.splice(0) };
  }
}

export class Ranking extends EngineAnswer<ScoresEvent> {
  readonly #scores: number[] = [];
  /** Scores still to be received. */
  #scoresLeft: number;

  constructor(id: number, owner: AnswerOwner, documents: number) {
    super(id, owner);
    this.#scoresLeft = documents;
  }

  /** The engine sends scores as vectors of one number. */
  protected override addVectors(scores: Float32Array): boolean {
    this.#scoresLeft -= scores.length;
    if (this.#scoresLeft < 0 || !scores.every(Number.isFinite)) return false;
    this.#scores.push(...scores);
    return true;
  }

  protected override take(): ScoresEvent | undefined {
    if (this.#scores.length === 0) return undefined;
    return { type: 'scores', scores: this.#scores.splice(0) };
  }
}
