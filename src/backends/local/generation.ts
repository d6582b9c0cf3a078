/**
 * One request on the daemon's side: turns what the engine pushes into the protocol's events, and buffers it until the
 * consumer pulls.
 *
 * Adjacent pieces of the same kind are joined, so a slow consumer gets longer pieces, not a longer queue.
 * Back-pressure: above PAUSE_CHARACTERS the engine pauses this generation; the next pull takes everything and resumes
 * it. A failure discards buffered text, because text that was not sent must not prevent a retry. Vectors and scores are
 * bounded by their request and pause nothing.
 *
 * An engine that ignores a pause or sends more vectors or scores than requested is killed: it no longer runs the code
 * that we loaded into it.
 */
import { randomInt } from 'node:crypto';
import type { EngineFinish, EngineOutput, NativeToolCallPart } from '../../engine/addon.ts';
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
import type { ScoresEvent } from '../../protocol/rerank.ts';
import type { TokensEvent } from '../../protocol/tokenize.ts';
import { toFinishEvent, toLogprobs } from './request.ts';

/** About a thousand tokens: enough for any consumer that keeps up. */
const PAUSE_CHARACTERS = 4 * 1024;
/** Each may have twenty alternatives. */
const PAUSE_LOGPROBS = 256;
/** Far more than an engine can have in flight when it is paused. */
const MOST_CHARACTERS = 4 * 1024 * 1024;
const MOST_LOGPROBS = 64 * 1024;

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
  protected readonly owner: AnswerOwner;
  #accepted = false;
  #inputTokens: number | undefined;
  /** `at`: performance.now() when it arrived. */
  #end: { readonly finish: EngineFinish; readonly at: number } | { readonly error: SvcError } | undefined;
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
    if (this.#end !== undefined || !this.add(output)) return;
    if (output.finish !== undefined) this.#end = { finish: output.finish, at: performance.now() };
    this.accept();
  }

  /** Vectors of the next inputs, concatenated; or scores. */
  pushVectors(numbers: Float32Array): void {
    if (this.addVectors?.(numbers) === true) this.accept();
    else this.owner.offend('sent vectors that were not requested');
  }

  /** All tokens of the input. */
  pushTokens(tokens: Omit<TokensEvent, 'type'>): void {
    if (this.addTokens?.(tokens) === true) this.accept();
    else this.owner.offend('sent tokens that were not requested');
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

  /** Buffers the content of an output. Returns false if the engine has offended. */
  protected abstract add(output: EngineOutput): boolean;
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

export type AnswerEvent = TextEvent | ReasoningEvent | ToolCallEvent;
/** Events between `start` and `finish`, of requests of any kind. */
export type ContentEvent = AnswerEvent | VectorsEvent | ScoresEvent | TokensEvent;

export class Generation extends EngineAnswer<AnswerEvent> {
  readonly #events: AnswerEvent[] = [];
  /** Tokens that no event has listed yet. */
  #tokens: number[] = [];
  #characters = 0;
  #logprobs = 0;
  #calls = 0;
  #paused = false;

  protected override add(output: EngineOutput): boolean {
    const { text, reasoning = '', tool_calls = [], logprobs = [], tokens = [], finish } = output;
    this.#tokens.push(...tokens);
    this.#append('reasoning', reasoning, []);
    this.#append('text', text, toLogprobs(logprobs));
    if (!tool_calls.every((part) => this.#addCall(part))) {
      this.owner.offend('sent a part of a tool call that it had not begun');
      return false;
    }
    if (this.#characters > MOST_CHARACTERS || this.#logprobs > MOST_LOGPROBS) {
      this.owner.offend('continued an answer that it had to pause');
      return false;
    }
    const isFull = this.#characters > PAUSE_CHARACTERS || this.#logprobs > PAUSE_LOGPROBS;
    if (finish === undefined && !this.#paused && isFull) {
      this.#paused = true;
      this.owner.send({ type: 'pause', id: this.id });
    }
    return true;
  }

  #append(type: 'text' | 'reasoning', text: string, logprobs: readonly TokenLogprobs[]): void {
    if (text === '' && logprobs.length === 0) return;
    this.#characters += text.length;
    this.#logprobs += logprobs.length;
    const last = this.#events.at(-1);
    if (last?.type !== type) {
      this.#events.push({ type, text, ...(logprobs.length === 0 ? {} : { logprobs }) });
      return;
    }
    const all = [...(last.type === 'text' ? (last.logprobs ?? []) : []), ...logprobs];
    this.#events[this.#events.length - 1] = {
      type,
      text: last.text + text,
      ...(all.length === 0 ? {} : { logprobs: all }),
    };
  }

  /** Returns false if the part belongs to no call. */
  #addCall({ index, id, name, arguments: text }: NativeToolCallPart): boolean {
    const isFirst = index === this.#calls;
    if (isFirst !== (name !== '') || index > this.#calls) return false;
    if (isFirst) this.#calls += 1;
    this.#characters += text.length + name.length;
    const last = this.#events.at(-1);
    if (last?.type === 'tool_call' && last.index === index) {
      this.#events[this.#events.length - 1] = { ...last, arguments: last.arguments + text };
    } else {
      const begin = isFirst ? { id: id === '' ? newCallId() : id, name } : {};
      this.#events.push({ type: 'tool_call', index, ...begin, arguments: text });
    }
    return true;
  }

  protected override take(): AnswerEvent | undefined {
    const event = this.#events.shift();
    if (event === undefined) return undefined;
    const tokens = this.#tokens.splice(0);
    const listed = tokens.length === 0 ? event : { ...event, tokens };
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

  protected override add(): boolean {
    return true;
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

  protected override add(): boolean {
    return true;
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
