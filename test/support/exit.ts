/** Asserts how a command ended. A failure shows its whole output, because CI's machine cannot be asked again. */
import * as assert from 'uvu/assert';
import type { SvcResult } from './svc.ts';

/** Asserts the exit code. `what` names the case, for calls in a loop. */
export function assertExit({ code, signal, stdout, stderr }: SvcResult, expected: number, what = ''): void {
  const ended = signal === null ? `exit ${String(code)}` : `ended by ${signal}`;
  assert.is(code, expected, `${what}${what && ': '}${ended}, expected exit ${String(expected)}\n${stderr}${stdout}`);
}
