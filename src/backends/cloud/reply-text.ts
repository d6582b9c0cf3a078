/** The body of a reply as text. */
import type { Reply } from './transport.ts';

/** At most `limit` bytes of it; what is beyond stays unread. Throws what the reply makes of a failure. */
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
