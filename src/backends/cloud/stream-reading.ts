/** Reads an answer that is a stream of server-sent events. */
import { SilenceTimer } from '../../net/silence-timer.ts';
import { EventStream } from './event-stream.ts';
import type { AnswerProgress } from './answer-progress.ts';
import type { Reply } from './transport.ts';
import type { WireEvent, WireReader } from './wire.ts';

/** Wait for usage after the finish reason, and for the end of the stream after `[DONE]`. */
const FINISH_GRACE_MS = 2000;
const DONE_GRACE_MS = 500;

/** Yields the events of each server-sent event. Reads to the end, so that the connection can be reused. */
export async function* readStream(
  reply: Reply,
  reader: WireReader,
  progress: AnswerProgress,
): AsyncGenerator<readonly WireEvent[], void, undefined> {
  const stream = new EventStream();
  const pieces = reply.body.iterator({ destroyOnReturn: false }) as AsyncIterator<Buffer, undefined>;
  let graceMs: number | null = null;
  for (let isOver = false; !isOver;) {
    const piece = await nextPiece(pieces, reply, graceMs);
    isOver = piece === null;
    for (const event of piece === null ? stream.end() : stream.push(piece)) {
      if (event.data === '[DONE]') graceMs = DONE_GRACE_MS;
      else if (graceMs !== DONE_GRACE_MS) yield reader.read(event);
    }
    if (progress.isFinished) graceMs ??= FINISH_GRACE_MS;
  }
  yield reader.end();
}

/** null: the end. With a grace period, a timeout or a broken connection counts as the end too. */
async function nextPiece(
  pieces: AsyncIterator<Buffer, undefined>,
  reply: Reply,
  graceMs: number | null,
): Promise<Buffer | null> {
  const next = pieces.next().then(({ value }) => value ?? null);
  if (graceMs === null) {
    return next.catch((error: unknown) => {
      throw reply.failure(error);
    });
  }
  return new Promise((resolve) => {
    const timer = new SilenceTimer(graceMs, () => resolve(null));
    void next
      .catch(() => null)
      .then((piece) => {
        timer.stop();
        resolve(piece);
      });
  });
}
