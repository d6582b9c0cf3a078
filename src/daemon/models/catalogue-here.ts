/** The catalogue of models to pull, against the memory and the disk of this machine. */
import { catalogue, estimatedBytes } from '../../models/pull/catalogue.ts';
import { lackOfRoom } from '../../models/pull/fits.ts';
import { nearest } from '../../models/store/free-space.ts';
import type { CatalogueModel } from '../../protocol/console.ts';
import { given } from '../../protocol/given.ts';
import type { ModelRecord } from '../../protocol/records.ts';
import { freeDiskBytes } from '../resources.ts';

/** `dir`: folder of the models. `memoryBytes`: what a model may take. */
export async function catalogueHere(
  models: readonly ModelRecord[],
  dir: string,
  memoryBytes: number,
): Promise<readonly CatalogueModel[]> {
  const names = new Set(models.flatMap(({ id, aliases }) => [id, ...aliases]).map((name) => name.toLowerCase()));
  const diskBytes = await freeDiskBytes(await nearest(dir));
  return catalogue().models.map((entry) => {
    const { name, parameters_billions, default_quantization: quantization, context_length, license, good_at } = entry;
    const bytes = Math.round(estimatedBytes(entry, quantization));
    const installed = names.has(name);
    const why = lackOfRoom(bytes, { memoryBytes, diskBytes: installed ? null : diskBytes });
    const facts = { name, parameters_billions, quantization, bytes, context_length, license, good_at };
    return { ...facts, fits: why === undefined, ...given({ why }), installed };
  });
}
