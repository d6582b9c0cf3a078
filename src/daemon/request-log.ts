/** The log line of a request that failed, the same for every listener. */
import type { Logger } from '../log/log.ts';
import type { Caller } from '../protocol/caller.ts';
import { ERRORS, type SvcError } from '../protocol/errors.ts';

/** Fields of a log line that name the caller. Empty if no API key was sent: addresses are not logged. */
export function keyField(caller: Caller | null | undefined): { readonly key?: string } {
  return typeof caller?.name === 'string' ? { key: caller.name } : {};
}

/** Logs only the code of a client's error (HTTP status below BUSY's): its message may quote the request. */
export function logFailure(log: Logger, error: SvcError, fields: object, message: string): void {
  const { http } = error.facts;
  const what = http < ERRORS.BUSY.http ? { code: error.code } : { err: error };
  log[http >= 500 ? 'error' : 'info']({ ...fields, ...what }, message);
}
