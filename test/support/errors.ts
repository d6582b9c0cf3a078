/** Asserts the code of an error and a part of its message. */
import * as assert from 'uvu/assert';
import { SvcError, type ErrorCode } from '../../src/protocol/errors.ts';

/** Returns the SvcError that `act` throws or rejects with; fails if there is none or its code differs. */
export async function rejection(act: () => unknown, code: ErrorCode, message?: RegExp): Promise<SvcError> {
  let thrown: unknown;
  try {
    await act();
  } catch (error) {
    thrown = error;
  }
  if (!(thrown instanceof SvcError)) {
    throw thrown instanceof Error ? thrown : new Error(`expected ${code}, got ${String(thrown)}`);
  }
  assert.is(thrown.code, code, `${thrown.code}: ${thrown.message}`);
  if (message !== undefined) assert.match(thrown.message, message);
  return thrown;
}
