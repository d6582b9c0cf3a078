/** The health record over TCP, as any other program sees it. */
import type { HealthRecord } from '../protocol/records.ts';
import { HTTP_ROUTES } from '../protocol/routes.ts';
import { fetchJson } from './request.ts';

const ANSWER_MS = 5000;

/** `address` as the daemon states it: `127.0.0.1:7117`, `[::1]:7117`. Throws DAEMON_NOT_RUNNING when nobody listens there. */
export async function probeHttpHealth(address: string): Promise<HealthRecord> {
  const { hostname, port } = new URL(`http://${address}`);
  const target = { host: hostname.replace(/^\[(.*)\]$/, '$1'), port: Number(port || 80) };
  const { body } = await fetchJson(target, { path: HTTP_ROUTES.health, timeoutMs: ANSWER_MS }, [503]);
  return body as HealthRecord;
}
