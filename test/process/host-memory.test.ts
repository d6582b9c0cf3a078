/** Memory limits of control groups, read from fake cgroup folders. */
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { freemem, tmpdir, totalmem } from 'node:os';
import { join } from 'node:path';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { hostMemory, type HostMemory } from '../../src/process/host-memory.ts';
import { unless } from '../support/skip.ts';

const MB = 1e6;
const onLinux = unless(process.platform === 'linux' ? undefined : 'control groups are of Linux', test);

/** `groups`: files by cgroup path. */
async function measured(membership: string, groups: Record<string, Record<string, string>>): Promise<HostMemory> {
  const root = await mkdtemp(join(tmpdir(), 'svc-cgroup-'));
  try {
    for (const [path, files] of Object.entries(groups)) {
      await mkdir(join(root, path), { recursive: true });
      for (const [name, text] of Object.entries(files)) await writeFile(join(root, path, name), text);
    }
    await writeFile(join(root, 'membership'), membership);
    return hostMemory(root, join(root, 'membership'));
  } finally {
    await rm(root, { recursive: true });
  }
}

test('without a limit, the memory of the machine counts', async () => {
  const { totalBytes, availableBytes } = hostMemory('/nowhere', '/nowhere');
  assert.is(totalBytes, totalmem());
  if (process.platform === 'darwin') assert.is(availableBytes, null);
  else assert.ok(Math.abs((availableBytes ?? 0) - freemem()) < 500 * MB);
});

onLinux('a limit counts; pages that the kernel can drop count as available', async () => {
  const files = {
    'memory.max': '100000000\n',
    'memory.current': '60000000\n',
    'memory.stat': 'anon 30000000\nfile 30000000\ninactive_file 20000000\nactive_file 10000000\n',
  };
  const { totalBytes, availableBytes } = await measured('0::/a/b\n', { 'a/b': files });
  assert.is(totalBytes, 100 * MB);
  assert.is(availableBytes, 70 * MB);
});

onLinux('the lowest limit of the enclosing groups counts', async () => {
  const { availableBytes } = await measured('0::/a/b\n', {
    a: { 'memory.max': '50000000\n', 'memory.current': '40000000\n', 'memory.stat': '' },
    'a/b': { 'memory.max': 'max\n', 'memory.current': '40000000\n', 'memory.stat': '' },
  });
  assert.is(availableBytes, 10 * MB);
});

onLinux('in a container, where the cgroup path is of the host, the mounted group counts', async () => {
  const { availableBytes } = await measured('0::/system/docker-1\n', {
    '.': { 'memory.max': '50000000\n', 'memory.current': '20000000\n', 'memory.stat': '' },
  });
  assert.is(availableBytes, 30 * MB);
});

onLinux('cgroup v1 is supported too', async () => {
  const { availableBytes } = await measured('5:cpu,cpuacct:/x\n4:memory:/x\n0::/\n', {
    'memory/x': {
      'memory.limit_in_bytes': '80000000\n',
      'memory.usage_in_bytes': '30000000\n',
      'memory.stat': 'inactive_file 1\ntotal_inactive_file 10000000\ntotal_active_file 0\n',
    },
  });
  assert.is(availableBytes, 60 * MB);
});

test.run();
