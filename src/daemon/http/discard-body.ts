/**
 * Lingering close, as nginx has it. An answer may be sent before the request's body has arrived: it is too large, or
 * not valid. Closing the connection then would reset it, and the client, still sending, would lose the answer. So the
 * rest of the body is discarded first, while the client continues sending, and for a limited time.
 */
import type { IncomingMessage } from 'node:http';
import { SilenceTimer } from '../../net/silence-timer.ts';

const MOST_MS = 10_000;
const SILENT_MS = 2000;

/**
 * Resolves when the body has ended, the client has sent nothing for 2 s, 10 s have passed, or the client is gone. True:
 * the body is complete.
 */
export function discardBody(req: IncomingMessage): Promise<boolean> {
  if (req.complete || req.destroyed) return Promise.resolve(req.complete);
  return new Promise((resolve) => {
    const done = (): void => {
      clearTimeout(most);
      silence.stop();
      req.off('data', onData).off('end', done).off('close', done);
      resolve(req.complete);
    };
    const most = setTimeout(done, MOST_MS).unref();
    const silence = new SilenceTimer(SILENT_MS, done);
    const onData = (): void => silence.heard();
    // A request that was paused stays so: discarding its pieces would cost as much as reading them.
    req.on('data', onData).once('end', done).once('close', done);
  });
}
