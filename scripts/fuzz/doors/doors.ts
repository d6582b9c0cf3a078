/** What can be fuzzed over real sockets. */
import type { Random } from '../random.ts';
import { http1 } from './http1.ts';
import { http2 } from './http2.ts';
import { json } from './json.ts';
import { protobuf } from './protobuf.ts';
import type { FuzzedDaemon } from './fuzzed-daemon.ts';

/** Sends cases to one daemon over connections of its own. */
export interface Player {
  /** Resolves when the case is over: what was wrong with it, or null. */
  play(random: Random): Promise<string | null>;
  close(): void;
}

export interface Door {
  readonly name: string;
  /** In a full run. */
  readonly cases: number;
  /** True: the daemon as it is shipped. False: the daemon over engines that answer at once. */
  readonly isShipped: boolean;
  open(daemon: FuzzedDaemon): Promise<Player>;
}

export const DOORS: readonly Door[] = [http2, http1, json, protobuf];
