/** Promises that are settled from outside, or looked at for a while. */
import { setTimeout as sleep } from 'node:timers/promises';

/** A promise settled from outside. A rejection that is not handled raises no warning. */
export interface Deferred<Value = void> {
  readonly promise: Promise<Value>;
  resolve(value: Value): void;
  reject(error: Error): void;
}

export function deferred<Value = void>(): Deferred<Value> {
  let settle: Pick<Deferred<Value>, 'resolve' | 'reject'> | undefined;
  const promise = new Promise<Value>((resolve, reject) => {
    settle = { resolve, reject };
  });
  promise.catch(() => undefined);
  return { promise, ...(settle as Pick<Deferred<Value>, 'resolve' | 'reject'>) };
}

/** Resolves with true as soon as `promise` settles, or false after `milliseconds`. */
export async function settlesWithin(promise: Promise<unknown>, milliseconds: number): Promise<boolean> {
  const settled = promise.then(
    () => true,
    () => true,
  );
  return Promise.race([settled, sleep(milliseconds, false)]);
}
