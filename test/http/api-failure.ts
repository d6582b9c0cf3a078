/** Returns the error of a call of the official client. */
import { APIError } from 'openai';

export async function failure(work: Promise<unknown>): Promise<APIError> {
  try {
    await work;
  } catch (error) {
    if (error instanceof APIError) return error;
    throw error;
  }
  throw new Error('it did not fail');
}
