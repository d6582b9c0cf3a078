import { resolvePaths } from '../../../home/paths.ts';
import { removable } from '../../../models/store/lookup.ts';
import { prefixFolder } from '../../../models/store/prefixes.ts';
import { sharesFile, removeModel } from '../../../models/store/remove-model.ts';
import { dropUnfinished, findUnfinished } from '../../../models/pull/unfinished.ts';
import { SvcError } from '../../../protocol/errors.ts';
import type { ModelAdapter, ModelRecord } from '../../../protocol/records.ts';
import { jsonFlag, modelArgument, type Run, type Spec } from '../../spec.ts';
import { bytes } from '../../terminal/format.ts';
import { removeAdapter } from '../../machine/adapters.ts';
import { removeName } from '../../machine/model-names.ts';
import { reload } from '../../machine/reload.ts';
import { downloadsDirectory, findModel, fromDaemon, listModels, openStore } from '../../machine/models.ts';
import { askYesNo, say } from '../../terminal/output.ts';
import { printResult } from '../../terminal/result.ts';

export const spec = {
  summary: 'Remove a model',
  detail: [
    'A file in the store is deleted, unless another model has it, too. A file that was registered in its own place stays there. If it is a name that the config gives to a model (`svc model create`), only the name is removed.',
  ],
  arguments: [modelArgument],
  flags: {
    adapter: { kind: 'string', value: 'ID', summary: 'remove only this LoRA adapter of the model' },
    yes: { kind: 'switch', short: 'y', summary: 'do not ask before deleting a file' },
    json: jsonFlag,
  },
  examples: ['svc model rm qwen', 'svc model rm --yes qwen', 'svc model rm --yes --adapter legal qwen'],
} as const satisfies Spec;

export const run: Run<typeof spec> = async ({ adapter, yes, json }, { model }) => {
  if (adapter !== undefined) {
    await dropAdapter(await findModel(model), adapter, yes);
    printResult(json, { removed: adapter }, `removed the adapter ${adapter} of ${model}`);
    return;
  }
  const models = await listModels();
  const unfinished = await findUnfinished(downloadsDirectory(), model, models);
  if (unfinished !== undefined) {
    const { id } = unfinished;
    await dropUnfinished(downloadsDirectory(), unfinished);
    printResult(json, { removed: id }, `removed the partial download of ${id}`);
    return;
  }
  const record = await findModel(model);
  if (record.from !== undefined) {
    await removeName(record.id);
    printResult(json, { removed: record.id }, `removed ${record.id}, a name of ${record.from}`);
    return;
  }
  const store = openStore();
  const { path } = removable(record.id, await store.registry.read());
  const isDeleted = path === null && !sharesFile(record, models);
  if (isDeleted && !yes) await confirm(record, record.id);
  await removeModel(record, {
    store,
    models,
    loaded: (await fromDaemon((client) => client.status()))?.models.map(({ id }) => id) ?? [],
    prefixes: prefixFolder(resolvePaths().cacheDir),
    unload: async (id) => {
      await fromDaemon((client) => client.unload(id));
    },
  });
  // Names that were made from it may have engines of their own.
  await reload();
  printResult(json, { removed: record.id }, `removed ${record.id}`);
  const broken = (await listModels()).filter(({ from, state }) => from === record.id && state === 'failed');
  if (broken.length > 0) say(`made from it, and now without a model: ${broken.map(({ id }) => id).join(', ')}`);
};

async function dropAdapter({ id, from = id, adapters = [] }: ModelRecord, typed: string, yes: boolean): Promise<void> {
  const known = adapters.find((each) => each.id.toLowerCase() === typed.toLowerCase());
  if (known !== undefined && !yes) await confirm(known, `--adapter ${known.id} ${from}`);
  await removeAdapter(from, typed);
}

/** `named`: as typed after the command. */
async function confirm({ id, path, size_bytes }: ModelRecord | ModelAdapter, named: string): Promise<void> {
  const agreed = await askYesNo(`remove ${id} and delete ${path} (${bytes(size_bytes)})?`);
  if (agreed === true) return;
  if (agreed === false) throw new SvcError('CANCELLED', `${id} was not removed`);
  throw new SvcError('INVALID_REQUEST', `removing ${id} deletes ${path} (${bytes(size_bytes)})`, {
    hint: `confirm it: svc model rm --yes ${named}`,
  });
}
