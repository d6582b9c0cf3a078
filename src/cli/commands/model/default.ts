import { namingPull } from '../../asking/offer-pull.ts';
import { jsonFlag, modelArgument, type Run, type Spec } from '../../spec.ts';
import { modelName } from '../../machine/model-name.ts';
import { findModel, named, openStore } from '../../machine/models.ts';
import { printResult } from '../../terminal/result.ts';

export const spec = {
  summary: 'Set the default model, used when none is named',
  arguments: [modelArgument],
  flags: { json: jsonFlag },
  examples: ['svc model default qwen'],
} as const satisfies Spec;

export const run: Run<typeof spec> = async ({ json }, { model }) => {
  await namingPull(model, () => named(openStore()).setDefault(modelName(model)));
  const record = await findModel(model);
  printResult(json, record, `the default model is ${record.id}`);
};
