/** Returns the error of work that has to fail, which must be of a class of errors. */
export async function failureOf<Failure extends Error>(
  type: abstract new (...args: never[]) => Failure,
  work: PromiseLike<unknown>,
): Promise<Failure> {
  try {
    await work;
  } catch (error) {
    if (error instanceof type) return error;
    throw error;
  }
  throw new Error('it did not fail');
}
