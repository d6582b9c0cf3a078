/** Back-pressure of an answer whose client may never read. */
import { SvcError } from '../../protocol/errors.ts';

interface Drainable {
  once(event: 'drain', listener: () => void): unknown;
  off(event: 'drain', listener: () => void): unknown;
}

/**
 * Resolves when the stream takes data again. Rejects with the reason of `signal`, or with CANCELLED if the client does
 * not read for `stallMs`; while `isItsTurn` returns false, nothing can be read, and that time starts again.
 */
export async function drained(
  stream: Drainable,
  signal: AbortSignal,
  stallMs: number,
  isItsTurn: () => boolean = () => true,
): Promise<void> {
  await new Promise<void>((resolve, reject) => {
    const settle = (error?: SvcError): void => {
      clearTimeout(timer);
      stream.off('drain', onDrain);
      signal.removeEventListener('abort', onAbort);
      if (error === undefined) resolve();
      else reject(error);
    };
    const onDrain = (): void => settle();
    const onAbort = (): void => settle(SvcError.from(signal.reason));
    const onStall = (): void => {
      if (isItsTurn()) settle(new SvcError('CANCELLED', 'the client stopped reading'));
      else timer.refresh();
    };
    const timer = setTimeout(onStall, stallMs);
    stream.once('drain', onDrain);
    signal.addEventListener('abort', onAbort);
  });
}
