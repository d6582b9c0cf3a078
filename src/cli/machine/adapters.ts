/** LoRA adapters of installed models. A running daemon loads the model again if its adapters have changed. */
import type { ModelAdapter } from '../../protocol/records.ts';
import { findModel, openStore } from './models.ts';
import { reload } from './reload.ts';

/** An adapter, and the installed model that has it. */
export interface AddedAdapter extends ModelAdapter {
  readonly model: string;
}

/** `typed`: the model, also by a name of the config. Throws as Adapters.add. */
export async function addAdapter(typed: string, file: string, name?: string): Promise<AddedAdapter> {
  const { id, from = id } = await findModel(typed);
  const adapter = await openStore().adapters.add(from, file, name);
  await reload();
  return { ...adapter, model: from };
}

/** `model`: id of an installed model. Throws as Adapters.remove. */
export async function removeAdapter(model: string, id: string): Promise<void> {
  await openStore().adapters.remove(model, id);
  await reload();
}
