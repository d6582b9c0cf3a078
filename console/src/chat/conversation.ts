/** Conversations as data. They are never changed in place: a changed conversation is another object. */
import type { Timings, ToolCall, Usage, FinishReason } from '../../../src/protocol/generate.ts';
import type { ErrorRecord } from '../../../src/protocol/errors.ts';

/** A picture that a turn carries. */
export interface Picture {
  readonly name: string;
  readonly media_type: 'image/png' | 'image/jpeg' | 'image/gif' | 'image/webp';
  /** Base64. */
  readonly data: string;
}

export interface UserTurn {
  readonly role: 'user';
  readonly id: string;
  readonly text: string;
  readonly pictures: readonly Picture[];
}

/** The result of a tool call, given by the user: this page runs no tools. */
export interface ToolTurn {
  readonly role: 'tool';
  readonly id: string;
  readonly callId: string;
  readonly text: string;
}

export type Failure = Pick<ErrorRecord, 'message' | 'hint'>;

export interface AssistantTurn {
  readonly role: 'assistant';
  readonly id: string;
  readonly state: 'waiting' | 'streaming' | 'done' | 'stopped' | 'failed';
  readonly text: string;
  readonly reasoning: string;
  readonly toolCalls: readonly ToolCall[];
  /** Model and provider that answered; null: none has begun. */
  readonly answeredBy: { readonly model: string; readonly provider: string } | null;
  readonly reason: FinishReason | null;
  readonly usage: Usage | null;
  readonly timings: Timings | null;
  readonly failure: Failure | null;
}

export type Turn = UserTurn | AssistantTurn | ToolTurn;

/** What a request says besides its turns. Empty texts and null: the model's own. */
export interface Options {
  readonly system: string;
  readonly temperature: number | null;
  readonly maxTokens: number | null;
  readonly effort: '' | 'none' | 'low' | 'medium' | 'high';
  /** JSON: an array of tools, each with name, description and parameters. */
  readonly tools: string;
}

export interface Conversation {
  readonly id: string;
  readonly startedAt: string;
  /** Empty: the daemon's default. */
  readonly model: string;
  readonly options: Options;
  readonly turns: readonly Turn[];
}

export const DEFAULT_OPTIONS: Options = { system: '', temperature: null, maxTokens: null, effort: '', tools: '' };
const TITLE_LENGTH = 48;

/** Not `randomUUID`, which browsers have only on pages that came over HTTPS or from this machine. */
export function newId(): string {
  return Array.from(crypto.getRandomValues(new Uint8Array(12)), (byte) => byte.toString(16).padStart(2, '0')).join('');
}

export function newConversation(model: string, options = DEFAULT_OPTIONS): Conversation {
  return { id: newId(), startedAt: new Date().toISOString(), model, options, turns: [] };
}

export function newAnswer(): AssistantTurn {
  return {
    role: 'assistant',
    id: newId(),
    state: 'waiting',
    text: '',
    reasoning: '',
    toolCalls: [],
    answeredBy: null,
    reason: null,
    usage: null,
    timings: null,
    failure: null,
  };
}

export function titleOf({ turns }: Conversation): string {
  const first =
    turns
      .find(({ role }) => role === 'user')
      ?.text.trim()
      .replace(/\s+/g, ' ') ?? '';
  if (first === '') return 'New conversation';
  return first.length <= TITLE_LENGTH ? first : `${first.slice(0, TITLE_LENGTH - 1)}…`;
}

export const isRunning = (turn: Turn | undefined): boolean =>
  turn?.role === 'assistant' && (turn.state === 'waiting' || turn.state === 'streaming');

/** Whether the user has given the result of a tool call. */
export const hasResult = (callId: string, turns: readonly Turn[]): boolean =>
  turns.some((turn) => turn.role === 'tool' && turn.callId === callId);
