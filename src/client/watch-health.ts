/** Polls the health record, for listeners that do not push changes. */
import { setTimeout as sleep } from 'node:timers/promises';
import { FIGURES_MS, type HealthRecord } from '../protocol/records.ts';

const ASK_MS = 1000;

/** Yields the record, then each changed one, and fresh figures every FIGURES_MS. Ends when `ask` throws. */
export async function* watchHealth(ask: () => Promise<HealthRecord>): AsyncGenerator<HealthRecord, void, undefined> {
  let told = '';
  let toldAt = -Infinity;
  for (;;) {
    const record = await ask();
    const now = performance.now();
    const facts = withoutFigures(record);
    if (facts !== told || now - toldAt >= FIGURES_MS) {
      told = facts;
      toldAt = now;
      yield record;
    }
    await sleep(ASK_MS);
  }
}

function withoutFigures({ status, state, reason, pid, conditions, models, providers }: HealthRecord): string {
  return JSON.stringify([
    [status, state, reason, pid, conditions],
    models.map((model) => [model.id, model.state, model.pid]),
    providers.map((provider) => [provider.name, provider.state, provider.reason]),
  ]);
}
