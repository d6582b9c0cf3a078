/**
 * The conversations of this page, and the answers that run. They are in memory; if the user wants so, finished ones are
 * kept in the browser's local storage, without their pictures, and shown in all its tabs.
 */
import { computed, effect, signal } from '@preact/signals';
import { isBoolean, stored } from '../state/stored.ts';
import { streamAnswer } from './answer.ts';
import {
  hasResult,
  isRunning,
  newAnswer,
  newConversation,
  newId,
  type AssistantTurn,
  type Conversation,
  type Picture,
  type Turn,
} from './conversation.ts';
import { forget, forgetAll, keep, newestFirst, readKept, watchKept } from './kept.ts';
import { SpokenAnswer } from './spoken-answer.ts';
import { toRequest } from './to-request.ts';
import { ApiError } from '../api/api-error.ts';

export const isKept = stored('svc.keep', false, isBoolean);
const found = isKept.value ? readKept() : [];
/** The newest first; the first is never absent. */
export const conversations = signal<readonly Conversation[]>(startingWith(found));
const currentId = signal(conversations.value[0]?.id ?? '');
export const current = computed(() => {
  const chosen = conversations.value.find(({ id }) => id === currentId.value) ?? conversations.value[0];
  if (chosen === undefined) throw new Error('there is no conversation');
  return chosen;
});
/** False if the browser did not take the conversations: they were too large. */
export const isStored = signal(true);

/** Controllers of the running answers, by conversation. */
const running = new Map<string, AbortController>();

/** Conversations as they are in storage, by id. This tab writes only those that it has changed since. */
const inStorage = new Map(found.map((each) => [each.id, each]));

effect(() => {
  if (isKept.value) return;
  inStorage.clear();
  forgetAll();
});
effect(() => {
  if (isKept.value) isStored.value = keepChanged(conversations.value);
});

watchKept((id, kept) => {
  // This tab writes a conversation with a running answer when the answer ends. When `isKept` is turned off, storage is
  // emptied, but the pages go on showing their conversations.
  if (!isKept.value || (kept !== null && running.has(id))) return;
  // A conversation that comes or goes must not change which one is shown.
  currentId.value = current.value.id;
  if (kept === null) inStorage.delete(id);
  else inStorage.set(id, kept);
  if (kept === null) remove(id);
  else conversations.value = [kept, ...conversations.value.filter((each) => each.id !== id)].sort(newestFirst);
});

export function open(id: string): void {
  currentId.value = id;
}

/** Shows a conversation without turns, with the model and options of the one before. */
export function startNew(): void {
  const { model, options } = current.value;
  const unused = conversations.value.find(({ turns }) => turns.length === 0);
  if (unused === undefined) conversations.value = [newConversation(model, options), ...conversations.value];
  currentId.value = unused?.id ?? conversations.value[0]?.id ?? '';
}

export function remove(id: string): void {
  stop(id);
  conversations.value = startingWith(conversations.value.filter((each) => each.id !== id));
}

/** Forgets all conversations. */
export function removeAll(): void {
  for (const { id } of conversations.value) stop(id);
  conversations.value = startingWith([]);
  forgetAll();
}

/** `change`: model or options. */
export function configure(id: string, change: Partial<Pick<Conversation, 'model' | 'options'>>): void {
  update(id, (conversation) => ({ ...conversation, ...change }));
}

/** Adds a turn of the user and has it answered. */
export function send(id: string, text: string, pictures: readonly Picture[]): void {
  void answerAfter(id, (turns) => [...turns, { role: 'user', id: newId(), text, pictures }]);
}

/** Replaces a turn of the user; what followed it is dropped. */
export function resend(id: string, turnId: string, text: string): void {
  void answerAfter(id, (turns) => {
    const at = turns.findIndex((turn) => turn.id === turnId);
    const turn = turns[at];
    return turn?.role === 'user' ? [...turns.slice(0, at), { ...turn, id: newId(), text }] : turns;
  });
}

/** Answers again; the answer and what followed it are dropped. */
export function retry(id: string, turnId: string): void {
  void answerAfter(id, (turns) =>
    turns.slice(
      0,
      turns.findIndex((turn) => turn.id === turnId),
    ),
  );
}

/** Gives the result of a tool call; the model goes on when each call of the turn has one. */
export function giveResult(id: string, callId: string, text: string): void {
  update(id, (conversation) => ({
    ...conversation,
    turns: [...conversation.turns, { role: 'tool', id: newId(), callId, text }],
  }));
  const { turns } = find(id);
  const asked = turns.findLast((turn) => turn.role === 'assistant')?.toolCalls ?? [];
  if (asked.every((call) => hasResult(call.id, turns))) void answerAfter(id, (all) => all);
}

/** Ends the running answer of a conversation, if there is one; what it has said stays. */
export function stop(id: string): void {
  running.get(id)?.abort();
}

async function answerAfter(id: string, prepare: (turns: readonly Turn[]) => readonly Turn[]): Promise<void> {
  if (running.has(id)) return;
  update(id, (conversation) => ({ ...conversation, turns: prepare(conversation.turns) }));
  const turn = newAnswer();
  const controller = new AbortController();
  running.set(id, controller);
  const spoken = new SpokenAnswer();
  try {
    const request = toRequest(find(id));
    appendTurn(id, turn);
    const frames = new Frames((next) => {
      replaceTurn(id, next);
      spoken.heard(next);
    });
    frames.flush(await streamAnswer(request, turn, controller.signal, (next) => frames.put(next)));
  } catch (thrown) {
    const { message, hint } = ApiError.from(thrown);
    appendTurn(id, { ...turn, state: 'failed', failure: { message, ...(hint === null ? {} : { hint }) } });
  } finally {
    running.delete(id);
  }
}

/** Shows at most one state of a turn per frame of the screen, however many tokens come, and none twice. */
class Frames {
  #next: AssistantTurn | null = null;
  #shown: AssistantTurn | null = null;
  #handle = 0;
  readonly #show: (turn: AssistantTurn) => void;

  constructor(show: (turn: AssistantTurn) => void) {
    this.#show = show;
  }

  put(turn: AssistantTurn): void {
    if (this.#next === null) this.#handle = requestAnimationFrame(() => this.#frame());
    this.#next = turn;
  }

  /** Shows the last state, also on a page that is not visible and has no frames. */
  flush(turn: AssistantTurn): void {
    cancelAnimationFrame(this.#handle);
    this.#next = turn;
    this.#frame();
  }

  #frame(): void {
    const turn = this.#next;
    this.#next = null;
    if (turn === null || turn === this.#shown) return;
    this.#shown = turn;
    this.#show(turn);
  }
}

function find(id: string): Conversation {
  return conversations.value.find((each) => each.id === id) ?? current.value;
}

function appendTurn(id: string, turn: Turn): void {
  update(id, (conversation) => ({ ...conversation, turns: [...conversation.turns, turn] }));
}

function replaceTurn(id: string, turn: Turn): void {
  update(id, (conversation) => ({
    ...conversation,
    turns: conversation.turns.map((each) => (each.id === turn.id ? turn : each)),
  }));
}

function update(id: string, change: (conversation: Conversation) => Conversation): void {
  conversations.value = conversations.value.map((each) => (each.id === id ? change(each) : each));
}

/** Returns false if the browser did not take all. */
function keepChanged(all: readonly Conversation[]): boolean {
  const ids = new Set(all.map(({ id }) => id));
  for (const id of inStorage.keys()) {
    if (ids.has(id)) continue;
    inStorage.delete(id);
    forget(id);
  }
  let areTaken = true;
  for (const each of all) {
    // Not at each token: it is written when the answer has ended.
    const isDue = each.turns.length > 0 && !isRunning(each.turns.at(-1)) && inStorage.get(each.id) !== each;
    if (!isDue) continue;
    if (keep(each)) inStorage.set(each.id, each);
    else areTaken = false;
  }
  return areTaken;
}

function startingWith(kept: readonly Conversation[]): readonly Conversation[] {
  return kept.length > 0 ? kept : [newConversation('')];
}
