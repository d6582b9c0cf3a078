/** Damages bytes, and sends bytes in pieces. */
import { connect, type Socket } from 'node:net';
import type { Random } from '../random.ts';

/** True with probability 1/`times`. */
export function once(random: Random, times: number): boolean {
  return random.below(times) === 0;
}

/** Returns a copy with a few bytes changed, removed, repeated or cut off. */
export function damaged(random: Random, bytes: Buffer): Buffer {
  let result = Buffer.from(bytes);
  for (let change = random.below(4); change >= 0; change -= 1) {
    const at = random.below(result.length + 1);
    const to = Math.min(result.length, at + 1 + random.below(16));
    switch (random.below(6)) {
      case 0:
      case 1:
        if (at < result.length) result[at] = (result[at] ?? 0) ^ (1 << random.below(8));
        break;
      case 2:
        if (at < result.length) result[at] = random.of([0, 1, 0x7f, 0x80, 0xff, 0x0a, 0x22]);
        break;
      case 3:
        result = Buffer.concat([result.subarray(0, at), result.subarray(to)]);
        break;
      case 4:
        result = Buffer.concat([result.subarray(0, to), result.subarray(at, to), result.subarray(to)]);
        break;
      case 5:
        if (once(random, 3)) result = Buffer.from(result.subarray(0, at));
        break;
    }
  }
  return result;
}

export function randomBytes(random: Random, most: number): Buffer {
  return Buffer.from(Array.from({ length: random.below(most + 1) }, () => random.below(256)));
}

export interface Exchange {
  readonly port: number;
  /** Pieces to send, one after the other. */
  readonly pieces: readonly Buffer[];
  /** How to end the connection at the end of the exchange. */
  readonly ending: 'end' | 'destroy' | 'reset';
  /** True if the answer is complete. */
  isAnswered(answer: Buffer): boolean;
  readonly patienceMs: number;
}

export function cut(random: Random, bytes: Buffer): Buffer[] {
  const cuts = once(random, 2) ? [] : Array.from({ length: 1 + random.below(3) }, () => random.below(bytes.length + 1));
  const bounds = [0, ...cuts.sort((a, b) => a - b), bytes.length];
  return bounds.slice(1).map((end, index) => bytes.subarray(bounds[index], end));
}

/**
 * Opens a connection, sends the pieces, and waits for the answer, the end of the connection or the timeout. Resolves
 * with the received bytes.
 */
export function exchange({ port, pieces, ending, isAnswered, patienceMs }: Exchange): Promise<Buffer> {
  return new Promise((resolve) => {
    const socket = connect(port, '127.0.0.1');
    let answer: Buffer = Buffer.alloc(0);
    const finish = (): void => {
      clearTimeout(timer);
      if (ending === 'reset') socket.resetAndDestroy();
      else if (ending === 'destroy') socket.destroy();
      else socket.end(() => socket.destroy());
      resolve(answer);
    };
    const timer = setTimeout(finish, patienceMs);
    socket.on('error', () => undefined);
    socket.once('close', finish);
    socket.on('data', (chunk: Buffer) => {
      answer = answer.length === 0 ? chunk : Buffer.concat([answer, chunk]);
      if (isAnswered(answer)) finish();
    });
    socket.once('connect', () => {
      socket.setNoDelay(true);
      sendAll(socket, pieces);
    });
  });
}

function sendAll(socket: Socket, pieces: readonly Buffer[], from = 0): void {
  const piece = pieces[from];
  if (piece === undefined || !socket.writable) return;
  socket.write(piece);
  // In a later turn of the event loop, which usually means another packet.
  if (from + 1 < pieces.length) setImmediate(() => sendAll(socket, pieces, from + 1));
}
