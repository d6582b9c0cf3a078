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
