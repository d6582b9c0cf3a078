/**
 * What this machine, or the control group that svc runs in, has left of its memory. A limit of a
 * container is no less a wall than the end of the memory: the kernel ends what goes through it.
 *
 * Pages of files count as free, as in Linux' own MemAvailable: the system drops them when somebody
 * asks. Those of the weights of a loaded model are wanted back at once, so whoever adds models up
 * takes them off (backends/local/residency.ts).
 */
import { existsSync, readFileSync } from 'node:fs';
import { freemem, totalmem } from 'node:os';
import { dirname, join } from 'node:path';

export interface HostMemory {
  readonly totalBytes: number;
  /** null: this system does not tell. */
  readonly availableBytes: number | null;
}

const CGROUPS = '/sys/fs/cgroup';

/** `root`: where the control groups are; another one in tests. */
export function hostMemory(root = CGROUPS, membership = '/proc/self/cgroup'): HostMemory {
  // macOS keeps no such figure: its free pages say little.
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
  /** Without what the kernel drops when it must. */
  readonly used: number;
}

/** Of the group that this process is in, and those around it, that have a limit. */
function controlGroups(root: string, membership: string): Bound[] {
  const lines = text(membership).split('\n');
  const bounds: Bound[] = [];
  for (const line of lines) {
    const [, controllers = '', path = ''] = /^\d+:([^:]*):(.*)$/.exec(line) ?? [];
    const isV2 = controllers === '';
    if (path === '' || (!isV2 && !controllers.split(',').includes('memory'))) continue;
    const base = isV2 ? root : join(root, 'memory');
    const files = isV2 ? V2 : V1;
    // In a container the path may be of the machine outside: what is mounted is then the group itself.
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
  // No limit is "max", or more than any machine has.
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

function text(path: string): string {
  try {
    return readFileSync(path, 'utf8');
  } catch {
    return '';
  }
}
