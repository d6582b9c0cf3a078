/** Detection of GPUs, and misbehaving GPU backends in the process that loads them. */
import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { variable } from '../../src/process/environment.ts';
import { gpusOnBus } from '../../src/engine/gpu-bus.ts';
import { examineGpu, troubleOf } from '../../src/engine/gpu.ts';
import { probeEngine } from '../../src/engine/probe.ts';
import { buildBackend, type BROKEN_BACKENDS } from '../support/gpu-backends.ts';

const scratch = mkdtempSync(join(tmpdir(), 'svc-gpu-'));
test.after(() => {
  rmSync(scratch, { recursive: true });
});

function plug(bus: string, address: string, files: Readonly<Record<string, string>>, driver?: string): void {
  const device = join(bus, address);
  mkdirSync(device, { recursive: true });
  for (const [name, text] of Object.entries(files)) writeFileSync(join(device, name), `${text}\n`);
  if (driver !== undefined) symlinkSync(`../../../bus/pci/drivers/${driver}`, join(device, 'driver'));
}

test('GPUs are found on the bus, with and without a driver; a display-only device is not a GPU', () => {
  const bus = join(scratch, 'bus');
  plug(bus, '0000:00:01.0', { vendor: '0x1234', device: '0x1111', class: '0x030000' }, 'bochs-drm');
  plug(bus, '0000:00:02.0', { vendor: '0x8086', device: '0x100e', class: '0x020000' }, 'e1000');
  plug(bus, '0000:01:00.0', { vendor: '0x10de', device: '0x2335', class: '0x030200' });
  plug(bus, '0000:02:00.0', { vendor: '0x1002', device: '0x744c', class: '0x030000' }, 'amdgpu');
  assert.equal(gpusOnBus(bus), [
    { name: 'NVIDIA 10de:2335 at 0000:01:00.0', driver: null },
    { name: 'AMD 1002:744c at 0000:02:00.0', driver: 'amdgpu' },
  ]);
  assert.equal(gpusOnBus(join(scratch, 'none')), []);
});

const SAID: Readonly<Record<keyof typeof BROKEN_BACKENDS, RegExp>> = {
  crash:
    /failed when tried in a child process: the engine process was ended by SIGABRT while looking for compute devices/,
  hang: /gave no answer for 20 s while looking for compute devices/,
  old: /driver is too old for the Vulkan backend \(ggml_vulkan: Error: Vulkan 1\.2 required\.\)/,
  deviceless: /no installed driver provides one/,
  foreign: /is incompatible with this svc \(.*failed to find ggml_backend_init/,
};

for (const kind of Object.keys(SAID) as (keyof typeof BROKEN_BACKENDS)[]) {
  test(`a backend of kind "${kind}" affects only a child process, and is reported with a remedy`, async () => {
    const library = await buildBackend(kind, scratch);
    if (library === null) return;
    const probe = await probeEngine({
      measure: false,
      gpuModule: library,
      timeoutMs: kind === 'hang' ? 20_000 : 60_000,
    });
    const trouble = troubleOf(probe);
    assert.match(trouble?.reason ?? '', SAID[kind]);
    assert.ok(trouble?.hint);
  });
}

test('a GPU without a driver: the installed backend is tried, and the missing kernel driver is reported', async () => {
  if (process.platform !== 'linux' || process.arch !== 'x64' || variable('GGML_BACKEND_PATH') !== undefined) return;
  const bus = join(scratch, 'bare');
  plug(bus, '0000:01:00.0', { vendor: '0x10de', device: '0x2335', class: '0x030200' });
  const { gpus, module, trouble, probe } = await examineGpu({ measure: false, bus });
  assert.is(gpus.length, 1);
  assert.is(module, undefined);
  assert.match(trouble?.reason ?? '', /^the kernel has no driver for NVIDIA 10de:2335 at 0000:01:00\.0; /);
  assert.match((probe?.log ?? []).join('\n'), 'libggml-vulkan.so');
});

test('on a machine without a GPU no backend is tried', async () => {
  if (variable('GGML_BACKEND_PATH') !== undefined) return;
  const bus = join(scratch, 'empty');
  assert.equal(await examineGpu({ measure: false, bus }), { gpus: [], module: undefined, trouble: null, probe: null });
});

test('a missing loader library is reported by name', () => {
  const line = 'load_backend: failed to load /a/libggml-vulkan.so: libvulkan.so.1: cannot open shared object file';
  const trouble = troubleOf({ addon: null, devices: [], cpuFeatures: '', log: [line], error: null, stderr: '' });
  assert.match(trouble?.reason ?? '', 'libvulkan.so.1, is not installed');
});

test.run();
