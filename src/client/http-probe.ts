/** The health record over TCP, as any other program sees it. */
import { variable } from '../process/environment.ts';
import { SvcError } from '../protocol/errors.ts';
import type { HealthRecord } from '../protocol/records.ts';
import { reachable } from '../config/reachable.ts';
import { Client } from './client.ts';
import { keyNeeded } from './daemon-errors.ts';

/**
 * `address` as the daemon reports it: `127.0.0.1:7117`, `[::1]:7117`. Throws DAEMON_NOT_RUNNING if nothing listens
 * there, UNAUTHORIZED if a key is needed and the one in SVC_API_KEY is missing or unknown.
 */
export async function probeHttpHealth(address: string): Promise<HealthRecord> {
  try {
    return await new Client({ baseUrl: `http://${reachable(address)}`, apiKey: variable('SVC_API_KEY') }).health();
  } catch (error) {
    if (!(error instanceof SvcError) || error.code !== 'UNAUTHORIZED') throw error;
    throw keyNeeded(error.message);
  }
}
