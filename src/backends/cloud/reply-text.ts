/** Reads the body of a reply as text. */
import type { Reply } from './transport.ts';

/** Reads at most `limit` bytes; the rest stays unread. Throws `reply.failure()` if reading fails. */
export async function readText(reply: Reply, limit: number): Promise<string> {
  const pieces: Buffer[] = [];
  let bytes = 0;
  try {
    for await (const piece of reply.body as AsyncIterable<Buffer>) {
      pieces.push(piece);
      bytes += piece.length;
      if (bytes > limit) break;
    }
  } catch (error) {
    throw reply.failure(error);
  }
  return Buffer.concat(pieces).subarray(0, limit).toString();
}
