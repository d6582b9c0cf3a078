import type { Run } from '../../commands.ts';
import { modelName } from '../../machine/model-name.ts';
import { findModel, openStore } from '../../machine/models.ts';
import { print, printJson } from '../../terminal/output.ts';

export const run: Run<'model default'> = async ({ json }, { model }) => {
  await openStore().setDefault(modelName(model));
  const record = await findModel(model);
  if (json) printJson(record);
  else print(`the default model is ${record.id}`);
  return 0;
};
