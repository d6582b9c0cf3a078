/** Returns the error of a call of Cohere's client. */
import { CohereError } from 'cohere-ai';
import { failureOf } from '../support/failure.ts';

export async function cohereFailure(work: PromiseLike<unknown>): Promise<CohereError> {
  return await failureOf(CohereError, work);
}
