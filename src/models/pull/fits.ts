/** Estimate of whether a model fits this machine, made from its size alone, before its file is there. */
import { hostMemory, type HostMemory } from '../../process/host-memory.ts';
import type { DeviceRecord } from '../../protocol/records.ts';
import { SPARE_BYTES } from '../store/free-space.ts';

/** Room for one more model. */
export interface Room {
  readonly memoryBytes: number;
  /** null: not known. */
  readonly diskBytes: number | null;
}

/** A model needs the size of its file, this share more for buffers, and a KV cache. */
const BUFFERS = 1.1;
const CACHE_BYTES = 512 * 1024 ** 2;

/**
 * Memory that a model may take: what is available on the host or, if that is more, the whole memory of a GPU, because
 * other models there make room. Mapped weights of loaded models count as available.
 */
export function memoryForModel(devices: readonly DeviceRecord[], host: HostMemory = hostMemory()): number {
  // An integrated GPU has the host's memory.
  const gpus = devices.flatMap(({ type, memory_total_bytes: bytes }) =>
    type === 'gpu' && bytes !== null ? bytes : [],
  );
  return Math.max(host.availableBytes ?? host.totalBytes, ...gpus);
}

/** Returns what a model of this size lacks, in one sentence; undefined if it fits. */
export function lackOfRoom(fileBytes: number, { memoryBytes, diskBytes }: Room): string | undefined {
  const needed = fileBytes * BUFFERS + CACHE_BYTES;
  if (needed > memoryBytes)
    return `needs about ${gigabytes(needed)} of memory; ${gigabytes(memoryBytes)} are available`;
  const written = fileBytes + SPARE_BYTES;
  if (diskBytes !== null && written > diskBytes)
    return `needs ${gigabytes(written)} of disk space; ${gigabytes(diskBytes)} are free`;
  return undefined;
}

function gigabytes(bytes: number): string {
  return `${(bytes / 1e9).toFixed(1)} GB`;
}
