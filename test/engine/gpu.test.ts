/** Detection of GPUs, and misbehaving GPU backends in the process that loads them. */
import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { variable } from '../../src/process/environment.ts';
import { gpusOnBus } from '../../src/engine/gpu/cards.ts';
import { examineGpu, troubleOf } from '../../src/engine/gpu.ts';
import { probeEngine } from '../../src/engine/probe.ts';
import { buildBackend, type BROKEN_BACKENDS } from '../support/gpu-backends.ts';

const scratch = mkdtempSync(join(tmpdir(), 'svc-gpu-'));
test.after(() => {
  rmSync(scratch, { recursive: true });
});

function put(root: string, files: Readonly<Record<string, string>>): void {
  for (const [path, text] of Object.entries(files)) {
    mkdirSync(dirname(join(root, path)), { recursive: true });
    writeFileSync(join(root, path), `${text}\n`);
  }
}

function plug(root: string, address: string, files: Readonly<Record<string, string>>, driver?: string): void {
  const device = join('sys/bus/pci/devices', address);
  put(root, Object.fromEntries(Object.entries(files).map(([name, text]) => [join(device, name), text])));
  if (driver !== undefined) symlinkSync(`../../../bus/pci/drivers/${driver}`, join(root, device, 'driver'));
}

test('GPUs are found on the bus, with and without a driver; a display-only device is not a GPU', () => {
  const root = join(scratch, 'machine');
  plug(root, '0000:00:01.0', { vendor: '0x1234', device: '0x1111', class: '0x030000' }, 'bochs-drm');
  plug(root, '0000:00:02.0', { vendor: '0x8086', device: '0x100e', class: '0x020000' }, 'e1000');
  plug(root, '0000:01:00.0', { vendor: '0x10de', device: '0x2335', class: '0x030200' });
  plug(root, '0000:02:00.0', { vendor: '0x1002', device: '0x744c', class: '0x030000' }, 'amdgpu');
  put(root, { 'proc/sys/kernel/osrelease': '6.12.1' });
  const bare = {
    vendor: 'NVIDIA',
    name: 'NVIDIA 10de:2335 at 0000:01:00.0',
    driver: null,
    driverVersion: null,
    capability: 90,
  };
  const amd = {
    vendor: 'AMD',
    name: 'AMD 1002:744c at 0000:02:00.0',
    driver: 'amdgpu',
    driverVersion: 'Linux 6.12.1',
    capability: null,
  };
  assert.equal(gpusOnBus(root), [bare, amd]);
  assert.equal(gpusOnBus(join(scratch, 'none')), []);
});

test('cards have the names that the driver or the list of PCI devices has, and the version of their driver', () => {
  const root = join(scratch, 'named');
  plug(root, '0000:01:00.0', { vendor: '0x10de', device: '0x2335', class: '0x030200' }, 'nvidia');
  plug(root, '0000:02:00.0', { vendor: '0x1002', device: '0x744c', class: '0x030000' }, 'amdgpu');
  const banner = 'NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.65.06  Release Build  (dvs-builder)';
  put(root, {
    'proc/driver/nvidia/gpus/0000:01:00.0/information': 'Model: \t\t NVIDIA H100 PCIe\nIRQ:   \t\t 16',
    'proc/driver/nvidia/version': banner,
    'usr/share/misc/pci.ids':
      '1001  Other\n\t744c  Wrong\n1002  AMD/ATI\n# comment\n\t744c  Navi 31 [Radeon RX 7900]\n1003  X',
  });
  const found = gpusOnBus(root).map(({ name, driverVersion }) => `${name}, ${String(driverVersion)}`);
  assert.equal(found, [
    'NVIDIA H100 PCIe at 0000:01:00.0, 580.65.06',
    'AMD Navi 31 [Radeon RX 7900] at 0000:02:00.0, null',
  ]);
});

const SAID: Readonly<Record<keyof typeof BROKEN_BACKENDS, RegExp>> = {
  crash:
    /failed when tried in a child process: the engine process was ended by SIGABRT while looking for compute devices/,
  hang: /gave no answer for 20 s while looking for compute devices/,
  old: /driver is too old for the backend \(ggml_vulkan: Error: Vulkan 1\.2 required\.\)/,
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
  const root = join(scratch, 'bare');
  plug(root, '0000:01:00.0', { vendor: '0x10de', device: '0x2335', class: '0x030200' });
  const { gpus, module, trouble, probe } = await examineGpu({ measure: false, root });
  assert.is(gpus.length, 1);
  assert.is(module, undefined);
  assert.match(trouble?.reason ?? '', /^the kernel has no driver for NVIDIA 10de:2335 at 0000:01:00\.0; /);
  assert.match((probe?.log ?? []).join('\n'), 'libggml-vulkan.so');
});

test('on a machine without a GPU no backend is tried', async () => {
  if (variable('GGML_BACKEND_PATH') !== undefined) return;
  const root = join(scratch, 'empty');
  assert.equal(await examineGpu({ measure: false, root }), { gpus: [], module: undefined, trouble: null, probe: null });
});

test('a missing loader library is reported by name', () => {
  const line = 'load_backend: failed to load /a/libggml-vulkan.so: libvulkan.so.1: cannot open shared object file';
  const trouble = troubleOf({ addon: null, devices: [], cpuFeatures: '', log: [line], error: null, stderr: '' });
  assert.match(trouble?.reason ?? '', 'libvulkan.so.1, is not installed');
});

test('a library that the backend needs is reported by name', () => {
  const line = 'load_backend: failed to load /a/libggml-cuda.so: libcublas.so.13: cannot open shared object file';
  const trouble = troubleOf({ addon: null, devices: [], cpuFeatures: '', log: [line], error: null, stderr: '' });
  assert.match(trouble?.reason ?? '', /^the library libcublas\.so\.13, which the backend needs, is not installed$/);
});

test.run();
