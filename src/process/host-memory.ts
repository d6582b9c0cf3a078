/**
 * Free memory of this machine, or of the control group that svc runs in: the kernel enforces a container's limit as
 * strictly as the end of physical memory, by killing processes.
 *
 * File pages count as free, as in Linux' MemAvailable, because the system can drop them. But the mapped weights of a
 * loaded model would be read again at once, so backends/local/memory/residency.ts subtracts them.
 */
import { existsSync, readFileSync } from 'node:fs';
import { freemem, totalmem } from 'node:os';
import { dirname, join } from 'node:path';

export interface HostMemory {
  readonly totalBytes: number;
  /** null: unknown on this system. */
  readonly availableBytes: number | null;
}

const CGROUPS = '/sys/fs/cgroup';

/** `root`: mount point of the control groups; tests replace it. */
export function hostMemory(root = CGROUPS, membership = '/proc/self/cgroup'): HostMemory {
  // macOS has no such figure: its count of free pages means little.
  const machine = { totalBytes: totalmem(), availableBytes: process.platform === 'darwin' ? null : freemem() };
  if (process.platform !== 'linux') return machine;
  let { totalBytes, availableBytes } = machine;
  for (const { limit, used } of controlGroups(root, membership)) {
    totalBytes = Math.min(totalBytes, limit);
    availableBytes = Math.min(availableBytes ?? limit, Math.max(0, limit - used));
  }
  return { totalBytes, availableBytes };
}

interface Bound {
  readonly limit: number;
  /** Without file pages, which the kernel can drop. */
  readonly used: number;
}

/** Memory limits of this process's control group and its ancestors. */
function controlGroups(root: string, membership: string): Bound[] {
  const lines = text(membership).split('\n');
  const bounds: Bound[] = [];
  for (const line of lines) {
    const [, controllers = '', path = ''] = /^\d+:([^:]*):(.*)$/.exec(line) ?? [];
    const isV2 = controllers === '';
    if (path === '' || (!isV2 && !controllers.split(',').includes('memory'))) continue;
    const base = isV2 ? root : join(root, 'memory');
    const files = isV2 ? V2 : V1;
    // In a container the path may be the host's; the mounted directory is then the group itself.
    for (let at = existsSync(join(base, path)) ? path : '/'; ; at = dirname(at)) {
      const bound = boundOf(join(base, at), files);
      if (bound !== null) bounds.push(bound);
      if (at === '/' || at === '.') break;
    }
  }
  return bounds;
}

interface Files {
  readonly limit: string;
  readonly usage: string;
  readonly pages: RegExp;
}

const V2: Files = { limit: 'memory.max', usage: 'memory.current', pages: /^(?:in)?active_file (\d+)$/gm };
const V1: Files = {
  limit: 'memory.limit_in_bytes',
  usage: 'memory.usage_in_bytes',
  pages: /^total_(?:in)?active_file (\d+)$/gm,
};

function boundOf(group: string, { limit: limitFile, usage, pages }: Files): Bound | null {
  const limit = number(text(join(group, limitFile)));
  const used = number(text(join(group, usage)));
  // No limit is written as "max", or as a number above any machine's memory.
  if (limit === null || used === null || limit > totalmem()) return null;
  const droppable = [...text(join(group, 'memory.stat')).matchAll(pages)].reduce(
    (sum, [, bytes]) => sum + Number(bytes),
    0,
  );
  return { limit, used: Math.max(0, used - droppable) };
}

function number(value: string): number | null {
  return /^\d+\n?$/.test(value) ? Number(value) : null;
}

/** Text of a file of the kernel; '' if it cannot be read. */
function text(path: string): string {
  try {
    return readFileSync(path, 'utf8');
  } catch {
    return '';
  }
}
