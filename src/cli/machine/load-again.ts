/** Loading the models of an earlier daemon into its successor. */
import type { ControlClient } from '../../client/control-client.ts';
import { SvcError } from '../../protocol/errors.ts';
import type { StatusRecord } from '../../protocol/records.ts';
import type { LoadWishes } from '../../protocol/routes.ts';
import { sayProgress } from '../terminal/output.ts';

export interface NotLoaded {
  readonly model: string;
  readonly message: string;
}

/** Resolves with the models that could not be loaded. @param before null: there was no daemon */
export async function loadAgain(
  client: ControlClient,
  before: (Pick<StatusRecord, 'models'> & Partial<Pick<StatusRecord, 'loads'>>) | null,
): Promise<NotLoaded[]> {
  const failed: NotLoaded[] = [];
  for (const { model, ...wishes } of before?.loads ?? []) {
    const context = before?.models.find(({ id }) => id === model)?.context_length ?? 0;
    try {
      sayProgress(`loading ${model}`);
      // The context depends on free memory. A shorter one than before is tried again, now with the wish for it.
      if ((await load(client, model, wishes)) < context) {
        await load(client, model, { ...wishes, context_length: context }).catch(() => undefined);
      }
    } catch (error) {
      failed.push({ model, message: SvcError.from(error).told });
    } finally {
      sayProgress('');
    }
  }
  return failed;
}

/** Resolves with the context length. */
async function load(client: ControlClient, model: string, wishes: LoadWishes): Promise<number> {
  for await (const event of client.load(model, new AbortController().signal, wishes)) {
    if (event.type === 'loaded') return event.context_length;
  }
  return 0;
}
