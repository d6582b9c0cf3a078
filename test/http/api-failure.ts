/** Returns the error of a call of the official client. */
import { APIError } from 'openai';
import { failureOf } from '../support/failure.ts';

export async function failure(work: PromiseLike<unknown>): Promise<APIError> {
  return await failureOf(APIError, work);
}
