/** Conversations in local storage, an item each, so that tabs do not overwrite each other's. */
import { isRunning, DEFAULT_OPTIONS, type Conversation, type Turn } from './conversation.ts';

const PREFIX = 'svc.conversation.';

/** Those that other pages have left, the newest first; none if they cannot be read. */
export function readKept(): Conversation[] {
  return keptNames()
    .map((name) => parsed(localStorage.getItem(name)))
    .filter((each) => each !== null)
    .sort(newestFirst);
}

/** Keeps a conversation, without pictures. Returns false if the browser does not take it. */
export function keep(conversation: Conversation): boolean {
  const kept = { ...conversation, turns: conversation.turns.map(withoutPictures) };
  try {
    localStorage.setItem(PREFIX + conversation.id, JSON.stringify(kept));
    return true;
  } catch {
    return false;
  }
}

export function forget(id: string): void {
  localStorage.removeItem(PREFIX + id);
}

export function forgetAll(): void {
  for (const name of keptNames()) localStorage.removeItem(name);
}

/** Calls `onChange` when another tab has kept a conversation, or deleted it (null). */
export function watchKept(onChange: (id: string, kept: Conversation | null) => void): void {
  addEventListener('storage', ({ key, newValue }) => {
    if (key?.startsWith(PREFIX) === true) onChange(key.slice(PREFIX.length), parsed(newValue));
  });
}

export function newestFirst(one: Conversation, other: Conversation): number {
  return one.startedAt < other.startedAt ? 1 : one.startedAt > other.startedAt ? -1 : 0;
}

function keptNames(): string[] {
  try {
    return Object.keys(localStorage).filter((name) => name.startsWith(PREFIX));
  } catch {
    // The browser forbids it.
    return [];
  }
}

/** null: it is absent or cannot be read. */
function parsed(text: string | null): Conversation | null {
  try {
    const kept: unknown = JSON.parse(text ?? 'null');
    return isConversation(kept) ? completed(kept) : null;
  } catch {
    return null;
  }
}

function withoutPictures(turn: Turn): Turn {
  return turn.role === 'user' ? { ...turn, pictures: [] } : turn;
}

/** Options that a newer page has, and that the kept conversation lacks. An answer that ran has been cut off. */
function completed(each: Conversation): Conversation {
  const turns = each.turns.map((turn): Turn =>
    isRunning(turn) && turn.role === 'assistant' ? { ...turn, state: 'stopped' } : turn,
  );
  return { ...each, options: { ...DEFAULT_OPTIONS, ...each.options }, turns };
}

function isConversation(value: unknown): value is Conversation {
  const each = value as Partial<Conversation> | null;
  return typeof each?.id === 'string' && typeof each.model === 'string' && Array.isArray(each.turns);
}
