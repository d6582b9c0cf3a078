/** The health record again and again, for listeners that tell it only when asked. */
import { setTimeout as sleep } from 'node:timers/promises';
import type { HealthRecord } from '../protocol/records.ts';

const ASK_MS = 1000;

/** The record as it is, then each that is another: time alone makes none. Ends only by throwing what `ask` does. */
export async function* watchHealth(ask: () => Promise<HealthRecord>): AsyncGenerator<HealthRecord, void, undefined> {
  let told = '';
  for (;;) {
    const record = await ask();
    const news = JSON.stringify({ ...record, uptime_seconds: null });
    if (news !== told) yield record;
    told = news;
    await sleep(ASK_MS);
  }
}
