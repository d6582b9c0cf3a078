/** Estimates a model's memory at several context lengths, with a dry run in a child process. */
import { loadConfig } from '../../../config/config.ts';
import { resolvePaths } from '../../../home/paths.ts';
import type { NativeDeviceMemory, NativeMemoryEstimates } from '../../../engine/addon.ts';
import { estimateModel } from '../../../engine/estimate.ts';
import { hostMemory } from '../../../process/host-memory.ts';
import { given } from '../../../protocol/given.ts';
import { loadSettingsOf } from '../../../protocol/model/settings.ts';
import type { ModelMemory, ModelRecord } from '../../../protocol/records.ts';
import { bytes, count } from '../../terminal/format.ts';
import { out } from '../../terminal/output.ts';
import { table } from '../../terminal/layout.ts';
import { named, openStore } from '../../machine/models.ts';

/** Context lengths to estimate besides the one that the daemon would use. */
const OTHERS = [2048, 8192, 32_768, 131_072];

/** Throws the engine's error for the model. */
export async function memoryOf(model: ModelRecord): Promise<readonly ModelMemory[]> {
  const { engine } = loadConfig(resolvePaths());
  const { context_length = 0, draft, ...load } = loadSettingsOf(model.settings, engine);
  const { max_sequences } = engine;
  const draft_path = await draftPathFor(model, draft);
  const projector_path = model.projector?.path;
  const usable = model.adapters?.filter(({ error }) => error === undefined);
  const adapters = usable?.map(({ id, path }) => ({ id, path }));
  const others = OTHERS.filter((length) => model.context_length === null || length <= model.context_length);
  const estimates = await estimateModel(
    model,
    { ...load, ...given({ max_sequences, draft_path, projector_path, adapters }) },
    [context_length, ...others],
  );
  const own = estimates.estimates[0]?.context_length;
  const lengths = new Map(estimates.estimates.map((estimate) => [estimate.context_length, estimate]));
  return [...lengths.values()]
    .sort((a, b) => a.context_length - b.context_length)
    .map(({ context_length, devices }) => ({
      context_length,
      default: context_length === own,
      devices: devices.map((device) => recordOf(device, estimates)),
    }));
}

/** Returns undefined if the draft model cannot be used: the daemon then loads the model without it and logs it. */
async function draftPathFor(model: ModelRecord, draftModel: string | null): Promise<string | undefined> {
  if (draftModel === null) return undefined;
  const draft = await named(openStore())
    .find(draftModel)
    .catch(() => undefined);
  return draft?.path === model.path ? undefined : draft?.path;
}

function recordOf(device: NativeDeviceMemory, estimates: NativeMemoryEstimates): ModelMemory['devices'][number] {
  const { name, is_host, weights_bytes, cache_bytes, compute_bytes, free_bytes } = device;
  const process_bytes = is_host ? (estimates.process_bytes ?? 0) : 0;
  return {
    name,
    weights_bytes,
    cache_bytes,
    compute_bytes,
    process_bytes,
    total_bytes: weights_bytes + cache_bytes + compute_bytes + process_bytes,
    free_bytes: is_host ? hostMemory().availableBytes : free_bytes,
  };
}

export function memoryTable(lengths: readonly ModelMemory[]): string {
  const titles = ['CONTEXT', 'DEVICE', 'TOTAL', 'FREE', 'WEIGHTS', 'CACHE', 'COMPUTE', 'PROCESS'];
  const rows = lengths.flatMap(({ context_length, default: isDefault, devices }) =>
    devices.map((device, index) => [
      index > 0 ? '' : `${count(context_length)}${isDefault ? ' (at load)' : ''}`,
      device.name,
      bytes(device.total_bytes),
      bytes(device.free_bytes),
      bytes(device.weights_bytes),
      bytes(device.cache_bytes),
      bytes(device.compute_bytes),
      bytes(device.process_bytes),
    ]),
  );
  return table([titles, ...rows], out.tableColumns);
}
