/** Fuzzing targets over real sockets. */
import type { Random } from '../random.ts';
import { form } from './form.ts';
import { http1 } from './http1.ts';
import { http2 } from './http2.ts';
import { json } from './json.ts';
import { protobuf } from './protobuf.ts';
import type { FuzzedDaemon } from './fuzzed-daemon.ts';

/** Sends cases to one daemon over its own connections. */
export interface Player {
  /** Runs one case. Resolves with the problem found, or null. */
  play(random: Random): Promise<string | null>;
  close(): void;
}

export interface Door {
  readonly name: string;
  /** Number of cases in a full run. */
  readonly cases: number;
  /** True for the shipped daemon; false for the daemon with fake engines that answer at once. */
  readonly isShipped: boolean;
  open(daemon: FuzzedDaemon): Promise<Player>;
}

export const DOORS: readonly Door[] = [http2, http1, json, form, protobuf];
