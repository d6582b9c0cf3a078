/** The kept conversations, as the config has them. */
import { loadConfig } from '../../config/config.ts';
import { Conversations, type Conversation } from '../../home/conversations.ts';
import { historyFolder, resolvePaths } from '../../home/paths.ts';
import { SvcError } from '../../protocol/errors.ts';
import type { GenerateResult, Message } from '../../protocol/generate.ts';
import { DAY_MS } from '../../protocol/limits.ts';
import { say } from '../terminal/output.ts';

export interface History {
  /** `history.enabled`: new conversations are kept. */
  readonly enabled: boolean;
  readonly conversations: Conversations;
}

/** @throws SvcError CONFIG_INVALID */
export function openHistory(): History {
  const paths = resolvePaths();
  const { enabled, keep_days, disk_bytes } = loadConfig(paths).history;
  const options = { dir: historyFolder(paths), keepMs: keep_days * DAY_MS, mostBytes: disk_bytes };
  return { enabled, conversations: new Conversations(options) };
}

/** One conversation, which is kept as it grows. Without `history.enabled` nothing is written. */
export class KeptConversation {
  readonly #history: History;
  #id: string | undefined;
  #isTold = false;

  constructor(history: History, goesOn?: Conversation) {
    this.#history = history;
    this.#id = goesOn?.id;
  }

  /** Begins another conversation. */
  restart(): void {
    this.#id = undefined;
  }

  /** Writes the conversation up to now. A failure is reported and does not end the chat. */
  async keep(messages: readonly Message[], answered: Pick<GenerateResult, 'provider' | 'model'> | null): Promise<void> {
    const { enabled, conversations } = this.#history;
    if (!enabled) return;
    this.#id ??= conversations.newId();
    const model = answered?.provider === 'local' ? answered.model : null;
    try {
      const isKept = await conversations.put({ id: this.#id, model, messages: [...messages] });
      if (!isKept) this.#tell('the conversation is too long to be kept');
    } catch (error) {
      this.#tell(SvcError.from(error).message);
    }
  }

  #tell(what: string): void {
    if (!this.#isTold) say(what);
    this.#isTold = true;
  }
}

/**
 * Returns the conversation with the id, or the last one for `last`. @throws SvcError INVALID_REQUEST if there is none
 */
export async function conversationNamed(name: string): Promise<Conversation> {
  const { conversations } = openHistory();
  const found = name === 'last' ? await conversations.last() : await conversations.find(name);
  if (found !== null) return found;
  throw new SvcError('INVALID_REQUEST', `there is no kept conversation ${JSON.stringify(name.slice(0, 60))}`, {
    hint: 'see `svc history list`',
    param: 'id',
  });
}
