/** Formats what a user saw as one line. */
import type { SvcResult } from '../support/svc.ts';
import type { Answer } from '../http/ask.ts';

/** How a command ended: exit code and error message. */
export function ending({ code, signal, stderr }: SvcResult): string {
  const error = stderr
    .split('\n')
    .findLast((line) => line.startsWith('svc: ') && !line.startsWith('svc: starting') && !/built-in model/.test(line));
  const end = signal === null ? `exit ${String(code)}` : `ended by ${signal}`;
  return error === undefined || code === 0 ? end : `${end}: ${error.slice('svc: '.length)}`;
}

/** An HTTP answer: status and error message. */
export function answer({ status, text }: Pick<Answer, 'status' | 'text'>): string {
  const message = /"message":"((?:[^"\\]|\\.)*)"/.exec(text)?.[1];
  return message === undefined ? `HTTP ${status}` : `HTTP ${status}: ${message}`;
}
