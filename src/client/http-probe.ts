/** The health record over TCP, as any other program sees it. */
import { variable } from '../process/environment.ts';
import { SvcError } from '../protocol/errors.ts';
import type { HealthRecord } from '../protocol/records.ts';
import { HTTP_ROUTES } from '../protocol/routes.ts';
import { reachable } from './address.ts';
import { keyNeeded } from './daemon-errors.ts';
import { fetchJson } from './request.ts';

const ANSWER_MS = 5000;

/**
 * `address` as the daemon reports it: `127.0.0.1:7117`, `[::1]:7117`. Throws DAEMON_NOT_RUNNING if nothing listens
 * there, UNAUTHORIZED if a key is needed and the one in SVC_API_KEY is missing or unknown.
 */
export async function probeHttpHealth(address: string): Promise<HealthRecord> {
  const { hostname, port } = new URL(`http://${reachable(address)}`);
  const target = { host: hostname.replace(/^\[(.*)\]$/, '$1'), port: Number(port || 80) };
  const apiKey = variable('SVC_API_KEY');
  try {
    const { body } = await fetchJson(target, { path: HTTP_ROUTES.health, timeoutMs: ANSWER_MS, apiKey }, [503]);
    return body as HealthRecord;
  } catch (error) {
    if (!(error instanceof SvcError) || error.code !== 'UNAUTHORIZED') throw error;
    throw keyNeeded(error.message);
  }
}
