/** Estimates a model's memory at several context lengths, with a dry run in a child process. */
import { loadConfig } from '../../../config/config.ts';
import { resolvePaths } from '../../../home/paths.ts';
import type { NativeDeviceMemory, NativeMemoryEstimates } from '../../../engine/addon.ts';
import { estimateModel } from '../../../engine/estimate.ts';
import { hostMemory } from '../../../engine/host-memory.ts';
import type { ModelMemory, ModelRecord } from '../../../protocol/records.ts';
import { bytes, count, table, text } from '../../terminal/format.ts';
import { openStore } from '../../machine/models.ts';

/** Context lengths to estimate besides the one that the daemon would use. */
const OTHERS = [2048, 8192, 32_768, 131_072];

/** Throws the engine's error for the model. */
export async function memoryOf(model: ModelRecord): Promise<readonly ModelMemory[]> {
  const { engine } = loadConfig(resolvePaths());
  const draftPath = await draftPathFor(model, engine.draft_model);
  const others = OTHERS.filter((length) => model.context_length === null || length <= model.context_length);
  const estimates = await estimateModel(
    model,
    {
      ...(engine.gpu_layers === undefined ? {} : { gpuLayers: engine.gpu_layers }),
      ...(engine.max_sequences === undefined ? {} : { maxSequences: engine.max_sequences }),
      ...(engine.cache_type === undefined ? {} : { cacheType: engine.cache_type }),
      ...(draftPath === undefined ? {} : { draftPath }),
    },
    [engine.context_length ?? 0, ...others],
  );
  const own = estimates.estimates[0]?.contextLength;
  const lengths = new Map(estimates.estimates.map((estimate) => [estimate.contextLength, estimate]));
  return [...lengths.values()]
    .sort((a, b) => a.contextLength - b.contextLength)
    .map(({ contextLength, devices }) => ({
      context_length: contextLength,
      default: contextLength === own,
      devices: devices.map((device) => recordOf(device, estimates)),
    }));
}

/** Returns undefined if the draft model cannot be used: the daemon then loads the model without it and logs it. */
async function draftPathFor(model: ModelRecord, draftModel: string | null): Promise<string | undefined> {
  if (draftModel === null) return undefined;
  const draft = await openStore()
    .find(draftModel)
    .catch(() => undefined);
  return draft?.path === model.path ? undefined : draft?.path;
}

function recordOf(device: NativeDeviceMemory, { processBytes }: NativeMemoryEstimates): ModelMemory['devices'][number] {
  const process = device.isHost ? (processBytes ?? 0) : 0;
  return {
    name: device.name,
    weights_bytes: device.weightsBytes,
    cache_bytes: device.cacheBytes,
    compute_bytes: device.computeBytes,
    process_bytes: process,
    total_bytes: device.weightsBytes + device.cacheBytes + device.computeBytes + process,
    free_bytes: device.isHost ? hostMemory().availableBytes : device.freeBytes,
  };
}

export function memoryTable(lengths: readonly ModelMemory[]): string {
  const titles = ['CONTEXT', 'DEVICE', 'WEIGHTS', 'CACHE', 'COMPUTE', 'PROCESS', 'TOTAL', 'FREE'];
  const rows = lengths.flatMap(({ context_length, default: isDefault, devices }) =>
    devices.map((device, index) => [
      index > 0 ? '' : `${count(context_length)}${isDefault ? ' (default)' : ''}`,
      device.name,
      bytes(device.weights_bytes),
      bytes(device.cache_bytes),
      bytes(device.compute_bytes),
      bytes(device.process_bytes),
      bytes(device.total_bytes),
      device.free_bytes === null ? text(null) : bytes(device.free_bytes),
    ]),
  );
  return table([titles, ...rows]);
}
