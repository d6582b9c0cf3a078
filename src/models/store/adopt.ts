/** Adds a model whose verified files are on this disk to the store: a pulled one, or one that svc has made. */
import { stat } from 'node:fs/promises';
import { given } from '../../protocol/given.ts';
import { checkProjector, inspectParts, type GgufSummary } from '../gguf/gguf.ts';
import { bring, deleteFiles, placesOf, withNearFiles, type FetchedFile, type FetchedModel } from './adopted.ts';
import { namesIn, placeFor } from './lookup.ts';
import { entryOf } from './record.ts';
import type { RegistryEntry, RegistryFile } from './registry.ts';
import type { StorePaths } from './store-paths.ts';

interface Target {
  readonly file: RegistryFile;
  readonly paths: StorePaths;
  /** Names of the config, which no model gets. */
  readonly reserved: readonly string[];
}

/** See ModelStore.adopt. */
export async function adopt(model: FetchedModel, target: Target): Promise<RegistryEntry> {
  const { weights, projector } = model;
  const { paths } = target;
  const places = placesOf(paths, digestsOf(weights));
  // Checked before the files are moved, so that an invalid model never gets into the store.
  const summary = await inspectParts(weights.map(({ path }, index) => path ?? places[index] ?? ''));
  if (projector !== null) await checkProjector(projector.path ?? paths.blob(projector.digest));
  return await withNearFiles(model, paths, (near) => register(near, summary, target));
}

async function register(
  model: FetchedModel,
  summary: GgufSummary,
  { file, paths, reserved }: Target,
): Promise<RegistryEntry> {
  const { weights, projector, license } = model;
  const digests = digestsOf(weights);
  const places = placesOf(paths, digests);
  return await file.update(async (registry) => {
    const { id, before } = placeFor(model, registry, reserved);
    for (const [index, { path }] of weights.entries()) if (path !== null) await bring(path, places[index] ?? '');
    if (projector !== null && projector.path !== null) await bring(projector.path, paths.blob(projector.digest));
    const { mtimeMs } = await stat(places[0] ?? '');
    const stored = weights.map(({ digest, sizeBytes }) => ({ digest, size_bytes: sizeBytes }));
    const made = entryOf(id, null, stored, { ...summary, modified_at_ms: mtimeMs });
    const others = registry.models.filter((each) => each !== before);
    const known = namesIn({ ...registry, models: others }, reserved);
    const added: RegistryEntry = {
      ...made,
      aliases: [...new Set([...(before?.aliases ?? []), ...model.aliases])].filter(
        (each) => !known.has(each.toLowerCase()),
      ),
      source: model.source,
      license: made.license ?? license,
      ...given({ adapters: before?.adapters }),
      ...(projector === null ? {} : { projector: { digest: projector.digest, size_bytes: projector.sizeBytes } }),
    };
    for (const each of registry.models) {
      if (each.path === null && each.digest === added.digest) each.modified_at_ms = mtimeMs;
    }
    registry.models = [...others, added];
    const came = [...digests, ...(projector === null ? [] : [projector.digest])];
    registry.damaged = registry.damaged.filter((each) => !came.includes(each));
    if (before !== undefined) await deleteFiles(paths, before, registry);
    return added;
  });
}

function digestsOf(files: readonly FetchedFile[]): string[] {
  return files.map(({ digest }) => digest);
}
