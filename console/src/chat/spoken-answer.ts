/**
 * What a screen reader hears of a streamed answer: whole sentences, some seconds apart. Token by token, a live region
 * would interrupt itself all the time.
 */
import { announce } from '../parts/announcer.tsx';
import type { AssistantTurn } from './conversation.ts';

const PAUSE_MS = 4000;
/** Most characters at once. */
const LENGTH = 600;
const SENTENCES = /^[\s\S]*[.!?:](?=\s|$)|^[\s\S]*\n/;

export class SpokenAnswer {
  #at = 0;
  #lastMs = -Infinity;

  /** Takes a state of the turn; they come in order. */
  heard(turn: AssistantTurn): void {
    if (turn.state === 'failed') announce(`The answer failed: ${turn.failure?.message ?? ''}`);
    else if (turn.state === 'stopped') announce('Answer stopped');
    else if (turn.state === 'done') this.#say(turn.text.slice(this.#at), turn);
    else if (performance.now() - this.#lastMs >= PAUSE_MS) {
      const sentences = SENTENCES.exec(turn.text.slice(this.#at))?.[0] ?? '';
      if (sentences !== '') this.#say(sentences, turn);
    }
  }

  #say(text: string, { state, toolCalls }: AssistantTurn): void {
    this.#at += text.length;
    this.#lastMs = performance.now();
    const calls =
      state === 'done' && toolCalls.length > 0 ? ` It calls ${toolCalls.map(({ name }) => name).join(', ')}.` : '';
    const words = text.length > LENGTH ? `${text.slice(0, LENGTH)}… the answer continues.` : text;
    announce(`${words}${calls}${state === 'done' ? ' End of the answer.' : ''}`.trim());
  }
}
