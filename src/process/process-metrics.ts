/**
 * prom-client's metrics of this process: start time, CPU time, memory, open files. Its `collectDefaultMetrics` would
 * add those of Node, some with names that `promtool check metrics` rejects, and observers of the garbage collector and
 * the event loop that always run.
 */
import type { Registry } from 'prom-client';
import osMemoryHeap from 'prom-client/lib/metrics/osMemoryHeap.js';
import processCpuTotal from 'prom-client/lib/metrics/processCpuTotal.js';
import processOpenFileDescriptors from 'prom-client/lib/metrics/processOpenFileDescriptors.js';
import processStartTime from 'prom-client/lib/metrics/processStartTime.js';

export function registerProcessMetrics(registry: Registry): void {
  for (const register of [processStartTime, processCpuTotal, osMemoryHeap, processOpenFileDescriptors])
    register(registry);
}
