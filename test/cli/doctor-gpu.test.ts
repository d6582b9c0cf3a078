/** svc doctor and the daemon with a GPU, here the software driver lavapipe. */
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import * as assert from 'uvu/assert';
import { ControlClient } from '../../src/client/control-client.ts';
import type { StatusRecord } from '../../src/protocol/records.ts';
import { assertExit } from '../support/exit.ts';
import { COMPILED_MS, SOFTWARE_GPU } from '../support/gpu-backends.ts';
import type { Home } from '../support/home.ts';
import { unless } from '../support/skip.ts';
import { svc } from '../support/svc.ts';
import { svcSuite } from '../support/svc-suite.ts';
import { waitFor } from '../support/wait.ts';
import { examine } from './doctor-record.ts';

const test = svcSuite('doctor with a GPU');
const isRoot = process.getuid?.() === 0;

unless(SOFTWARE_GPU === null ? 'no software driver is installed' : undefined, test)(
  'its backend is loaded and computes in doctor and in the daemon',
  async ({ home }) => {
    const env = SOFTWARE_GPU ?? {};
    const without = await examine(home);
    const { checks } = await examine(home, env, COMPILED_MS);
    for (const each of checks)
      if (without.checks.find(({ name }) => name === each.name)?.status === 'ok')
        assert.is(each.status, 'ok', `${each.name}: ${String(each.detail)}`);
    const gpu = checks.find(({ name }) => name === 'gpu');
    assert.match(gpu?.value ?? '', /^card llvmpipe .*, backend Vulkan, \d+(\.\d)? tokens\/s$/);
    assert.match(gpu?.detail ?? '', /used through .*libggml-vulkan\.so; .* the same tokens/);
    const device = checks.find(({ name }) => name === 'device Vulkan0');
    assert.match(device?.value ?? '', /^\d+\.\d GFLOP\/s$/);
    assert.match(device?.detail ?? '', /llvmpipe.* of memory/);
    // The daemon does not compile them again.
    assert.ok(readdirSync(join(home.dir, 'cache', 'shaders'), { recursive: true }).length > 2);
    console.log(`    Vulkan0: ${device?.value ?? ''}`);

    assertExit(await svc(['start', '--timeout', '10m'], { home, env, timeoutMs: COMPILED_MS + 60_000 }), 0);
    const pid = await waitFor('an engine with the backend', () => engineWithBackend(home)).catch((cause: unknown) => {
      throw new Error(readFileSync(join(home.dir, 'state', 'daemon.log'), 'utf8'), { cause });
    });
    assert.match(readFileSync(`/proc/${String(pid)}/status`, 'utf8'), /^Seccomp:\t2$/m);
    const { resources } = await new ControlClient(join(home.dir, 'run', 'svc.sock')).health();
    const card = resources.devices.find(({ name }) => name === 'Vulkan0');
    assert.ok(card?.backend === 'Vulkan');
    // Older versions of this driver do not report free memory.
    const free = card.memory_free_bytes ?? 0;
    assert.ok(free >= 0 && free < (card.memory_total_bytes ?? 0));
  },
);

/** The engine's process id, once it has the backend. A driver may crash at any time; then svc starts another engine. */
async function engineWithBackend(home: Home): Promise<number | null> {
  const { models } = JSON.parse((await svc(['status', '--json'], { home })).stdout) as StatusRecord;
  const pid = models[0]?.pid ?? null;
  // The process is not dumpable, so only root can read its maps.
  if (pid === null || !isRoot) return pid;
  return readFileSync(`/proc/${String(pid)}/maps`, 'utf8').includes('libggml-vulkan.so') ? pid : null;
}

test.run();
