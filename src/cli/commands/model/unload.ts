import { ControlClient } from '../../../client/control-client.ts';
import { resolvePaths } from '../../../home/paths.ts';
import { jsonFlag, modelArgument, type Run, type Spec } from '../../spec.ts';
import { modelName } from '../../machine/model-name.ts';
import { printResult } from '../../terminal/result.ts';

export const spec = {
  summary: 'Unload a model and free all its memory',
  arguments: [modelArgument],
  flags: { json: jsonFlag },
  examples: ['svc model unload qwen'],
} as const satisfies Spec;

export const run: Run<typeof spec> = async ({ json }, { model }) => {
  await new ControlClient(resolvePaths().socketPath).unload(modelName(model));
  printResult(json, { unloaded: model }, `unloaded ${model}`);
};
