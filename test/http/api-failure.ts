/** What a call of the official client fails with. */
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
