/** Background clients: small requests throughout, every other one streamed. */
import { setTimeout as sleep } from 'node:timers/promises';
import { waitFor } from './wait.ts';
import type { Requests } from './requests.ts';

export const CLIENTS = 3;
/** Pause between requests, so that the load does not saturate the CPU. */
const PAUSE_MS = 5;
/** Number of answered requests before the fault, and again after it. */
const MARGIN = 20;

export class Load {
  readonly #requests: Requests;
  readonly #clients: Promise<void>[];
  #over = false;

  constructor(requests: Requests) {
    this.#requests = requests;
    this.#clients = Array.from({ length: CLIENTS }, () => this.#askOn());
  }

  /** Resolves once MARGIN more requests have been answered. */
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
