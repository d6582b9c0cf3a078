/** The catalogue of models to pull, against the memory and the disk of this machine. */
import { catalogue, estimatedBytes } from '../../models/pull/catalogue.ts';
import { nearest, SPARE_BYTES } from '../../models/store/free-space.ts';
import type { CatalogueModel } from '../../protocol/console.ts';
import { given } from '../../protocol/given.ts';
import type { DeviceRecord, ModelRecord } from '../../protocol/records.ts';
import { freeDiskBytes, totalMemoryBytes } from '../resources.ts';

/** Memory besides the weights: a short context, buffers and the process. */
const BESIDES = 1.15;
const LEAST_BESIDES_BYTES = 256 * 1024 * 1024;

/**
 * Memory counts as a whole, because loaded models make room: that of the machine, or of a GPU if that has more. `dir`:
 * folder of the models.
 */
export async function catalogueHere(
  models: readonly ModelRecord[],
  dir: string,
  devices: readonly DeviceRecord[],
): Promise<readonly CatalogueModel[]> {
  const names = new Set(models.flatMap(({ id, aliases }) => [id, ...aliases]).map((name) => name.toLowerCase()));
  const free = (await freeDiskBytes(await nearest(dir))) ?? Infinity;
  const memory = Math.max(totalMemoryBytes(), ...devices.map((device) => device.memory_total_bytes ?? 0));
  return catalogue().models.map((entry) => {
    const { name, parameters_billions, default_quantization: quantization, context_length, license, good_at } = entry;
    const bytes = Math.round(estimatedBytes(entry, quantization));
    const installed = names.has(name);
    const why = whyNot(bytes, memory, installed ? Infinity : free);
    const facts = { name, parameters_billions, quantization, bytes, context_length, license, good_at };
    return { ...facts, fits: why === undefined, ...given({ why }), installed };
  });
}

function whyNot(bytes: number, memory: number, free: number): string | undefined {
  const needed = Math.max(bytes * BESIDES, bytes + LEAST_BESIDES_BYTES);
  if (needed > memory) return `needs about ${gigabytes(needed)} of memory; this machine has ${gigabytes(memory)}`;
  if (bytes + SPARE_BYTES > free)
    return `needs ${gigabytes(bytes + SPARE_BYTES)} of disk space; ${gigabytes(free)} are free`;
  return undefined;
}

function gigabytes(bytes: number): string {
  return `${(bytes / 1e9).toFixed(1)} GB`;
}
