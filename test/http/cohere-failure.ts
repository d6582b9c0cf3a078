/** Returns the error of a call of Cohere's client. */
import { CohereError } from 'cohere-ai';

export async function cohereFailure(work: PromiseLike<unknown>): Promise<CohereError> {
  try {
    await work;
  } catch (error) {
    if (error instanceof CohereError) return error;
    throw error;
  }
  throw new Error('it did not fail');
}
