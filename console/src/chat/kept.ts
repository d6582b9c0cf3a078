/** Conversations in local storage. */
import { isRunning, DEFAULT_OPTIONS, type Conversation, type Turn } from './conversation.ts';

const STORED = 'svc.conversations';

/** Those that an earlier page has left; none if they cannot be read. */
export function readKept(): Conversation[] {
  try {
    const kept: unknown = JSON.parse(localStorage.getItem(STORED) ?? '[]');
    return Array.isArray(kept) ? kept.filter(isConversation).map(completed) : [];
  } catch {
    return [];
  }
}

/** Keeps those with turns, without pictures. Returns false if the browser does not take them. */
export function writeKept(conversations: readonly Conversation[]): boolean {
  const kept = conversations
    .filter(({ turns }) => turns.length > 0)
    .map((each) => ({ ...each, turns: each.turns.map(withoutPictures) }));
  try {
    if (kept.length === 0) localStorage.removeItem(STORED);
    else localStorage.setItem(STORED, JSON.stringify(kept));
    return true;
  } catch {
    return false;
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
