/** Clients that send requests without pause; each conversation has its own system prompt. */
import { setTimeout as sleep } from 'node:timers/promises';
import { ask, type Target } from '../peers/ask.ts';
import { words } from '../peers/words.ts';

export interface Outcome {
  readonly conversation: number;
  /** performance.now() at the request and at its end. */
  readonly from: number;
  readonly to: number;
  /** Server that answered; null: none. */
  readonly server: string | null;
  /** True if the request failed before the first piece of its answer. */
  readonly wasLost: boolean;
  readonly error: string | null;
}

const CONVERSATIONS = 24;
const CLIENTS = 8;

export class Load {
  readonly outcomes: Outcome[] = [];
  readonly #target: Target;
  readonly #beginnings = Array.from({ length: CONVERSATIONS }, () => words(40));
  readonly #clients: readonly Promise<void>[];
  #isOver = false;

  constructor(url: string) {
    this.#target = { url, vocabulary: 32_000 };
    this.#clients = Array.from({ length: CLIENTS }, (_, index) => this.#client(index));
  }

  async stop(): Promise<readonly Outcome[]> {
    this.#isOver = true;
    await Promise.all(this.#clients);
    return this.outcomes;
  }

  async #client(first: number): Promise<void> {
    for (let n = first; !this.#isOver; n += CLIENTS) {
      this.outcomes.push(await this.#ask(n % CONVERSATIONS));
      await sleep(20);
    }
  }

  async #ask(conversation: number): Promise<Outcome> {
    const from = performance.now();
    const told = { pieces: 0, model: null as string | null };
    const question = {
      messages: [
        { role: 'system', content: this.#beginnings[conversation] as string } as const,
        { role: 'user', content: 'how do i stop the daemon?' } as const,
      ],
      maxTokens: 24,
      more: { model: 'farm/shared' },
    };
    const over = (server: string | null, error: string | null): Outcome => ({
      conversation,
      from,
      to: performance.now(),
      server,
      wasLost: error !== null && told.pieces === 0,
      error,
    });
    try {
      const answer = await ask(this.#target, question, told);
      return over(answer.model, null);
    } catch (error) {
      return over(told.model, (error as Error).message);
    }
  }
}
