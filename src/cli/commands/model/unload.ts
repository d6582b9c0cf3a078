import { Client } from '../../../client/client.ts';
import { resolvePaths } from '../../../home/paths.ts';
import type { Run } from '../../commands.ts';
import { modelName } from '../../machine/model-name.ts';
import { print, printJson } from '../../terminal/output.ts';

export const run: Run<'model unload'> = async ({ json }, { model }) => {
  await new Client(resolvePaths().socketPath).unload(modelName(model));
  if (json) printJson({ unloaded: model });
  else print(`unloaded ${model}`);
  return 0;
};
