/** The built-in model has random weights for now. Whoever gets its words is told so, on standard error. */
import type { Client } from '../client/client.ts';
import type { StartEvent } from '../protocol/generate.ts';
import type { ModelRecord } from '../protocol/records.ts';
import { say } from './output.ts';

/** Asks for the models while the answer is being prepared; the result is for its first event. */
export function watchForPlaceholder(client: Client): (start: StartEvent) => Promise<void> {
  const asked = client.models().catch((): readonly ModelRecord[] => []);
  return async ({ model, provider }) => {
    const records = await asked;
    if (provider !== 'local' || !records.some((record) => record.id === model && record.builtin)) return;
    say(
      'the built-in model is a placeholder with random weights, its words mean nothing; add a real one: svc model add FILE',
    );
  };
}
