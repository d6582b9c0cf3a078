/** Clients that ask all the while: small questions, every other one as a stream. */
import { setTimeout as sleep } from 'node:timers/promises';
import { waitFor } from './wait.ts';
import type { Requests } from './requests.ts';

export const CLIENTS = 3;
/** A machine whose processor is full of our questions would show little else. */
const PAUSE_MS = 5;
/** Before the fault, and after it has passed. */
const MARGIN = 20;

export class Load {
  readonly #requests: Requests;
  readonly #clients: Promise<void>[];
  #over = false;

  constructor(requests: Requests) {
    this.#requests = requests;
    this.#clients = Array.from({ length: CLIENTS }, () => this.#askOn());
  }

  /** Resolves once so many more have been answered that the clients are well under way. */
  async flows(): Promise<void> {
    const { answered } = this.#requests;
    await waitFor('the clients to be answered', () => this.#requests.answered >= answered + MARGIN);
  }

  /** Resolves when every request has ended. */
  async stop(): Promise<void> {
    this.#over = true;
    await Promise.all(this.#clients);
  }

  async #askOn(): Promise<void> {
    for (let turn = 0; !this.#over; turn += 1) {
      await this.#requests.ask({ stream: turn % 2 === 0 });
      await sleep(PAUSE_MS);
    }
  }
}
