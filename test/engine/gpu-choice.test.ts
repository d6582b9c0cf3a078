/** The choice of a backend, on machines that are trees of files: cards, drivers and libraries. */
import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { chooseBackend, type BackendChoice } from '../../src/engine/gpu/choose.ts';
import { findLibrary } from '../../src/engine/gpu/libraries.ts';
import { BACKEND_PACKAGES, type BackendKind } from '../../src/engine/gpu/packages.ts';
import { computeCapability } from '../../src/engine/gpu/nvidia-chips.ts';
import { familyOf } from '../../src/engine/gpu/preparation.ts';
import { cudaLibraries, surveyGpu } from '../../src/engine/gpu/survey.ts';
import { vulkanDrivers } from '../../src/engine/gpu/vulkan-drivers.ts';
import { read } from '../architecture/source-files.ts';

const scratch = mkdtempSync(join(tmpdir(), 'svc-gpu-choice-'));
test.after(() => {
  rmSync(scratch, { recursive: true });
});

const MACHINES = { x64: 62, arm64: 183 } as const;
const OTHER_MACHINE = 40;

/** The header of a shared library of 64 bits. */
function elf(machine: number = MACHINES[process.arch as keyof typeof MACHINES]): Buffer {
  const header = Buffer.alloc(64);
  header.write('\x7fELF\x02\x01\x01', 'latin1');
  header.writeUInt16LE(machine, 18);
  return header;
}

const IDS = { NVIDIA: ['0x10de', '0x2684'], AMD: ['0x1002', '0x744c'], Intel: ['0x8086', '0x56a0'] } as const;

interface Card {
  readonly vendor: keyof typeof IDS;
  /** PCI device id; default: one of the vendor's. */
  readonly device?: string;
  readonly driver?: string;
  readonly version?: string;
}

interface Machine {
  readonly cards?: readonly Card[];
  /** Libraries in /usr/lib64. */
  readonly libraries?: readonly string[];
  /** Vulkan drivers, by the library that their manifest names. */
  readonly vulkan?: readonly string[];
}

let machines = 0;

function make({ cards = [], libraries = [], vulkan = [] }: Machine): string {
  const root = join(scratch, String(machines++));
  const put = (path: string, content: string | Buffer): void => {
    mkdirSync(dirname(join(root, path)), { recursive: true });
    writeFileSync(join(root, path), content);
  };
  for (const [index, { vendor, device: own, driver, version }] of cards.entries()) {
    const device = `sys/bus/pci/devices/0000:0${String(index)}:00.0`;
    const [vendorId, deviceId] = IDS[vendor];
    put(`${device}/vendor`, vendorId);
    put(`${device}/device`, own ?? deviceId);
    put(`${device}/class`, '0x030000');
    if (driver !== undefined) symlinkSync(`../../../bus/pci/drivers/${driver}`, join(root, device, 'driver'));
    if (driver !== undefined && version !== undefined) put(`sys/module/${driver}/version`, version);
  }
  for (const name of libraries) put(`usr/lib64/${name}`, elf());
  for (const [index, library] of vulkan.entries()) {
    const manifest = { file_format_version: '1.0.0', ICD: { library_path: library, api_version: '1.3.0' } };
    put(`usr/share/vulkan/icd.d/${String(index)}.json`, JSON.stringify(manifest));
  }
  return root;
}

function choose(machine: Machine, wanted?: BackendKind): BackendChoice {
  return chooseBackend(surveyGpu(make(machine)), { wanted, platform: 'linux-x64' });
}

const RTX_4090 = { vendor: 'NVIDIA', driver: 'nvidia', version: '580.65.06' } as const;
const RADEON = { vendor: 'AMD', driver: 'amdgpu' } as const;
const [CUDA, LOADER, RADV] = ['libcuda.so.1', 'libvulkan.so.1', 'libvulkan_radeon.so'];
const NVIDIA_ICD = 'libGLX_nvidia.so.0';

test('no card, and a card without a kernel driver: none', () => {
  assert.is(choose({}).reason, 'no GPU was found on the PCI bus');
  const { package: found, reason, hint } = choose({ cards: [{ vendor: 'NVIDIA' }], libraries: [LOADER] });
  assert.is(found, null);
  assert.match(reason, /^the kernel has no driver for NVIDIA 10de:2684 at 0000:00:00\.0$/);
  assert.match(hint ?? '', /NVIDIA's driver/);
});

test('NVIDIA with the libraries of CUDA 13 or 12: the CUDA backend for that version', () => {
  for (const cuda of [13, 12] as const) {
    const { package: found, reason } = choose({ cards: [RTX_4090], libraries: [CUDA, ...cudaLibraries(cuda)] });
    assert.equal([found?.kind, found?.cuda], ['cuda', cuda]);
    assert.is(reason, `the driver 580.65.06 and the libraries of CUDA ${String(cuda)} are installed`);
  }
});

test('a card for which CUDA 13 has no machine code needs a driver that compiles it, or CUDA 12', () => {
  const libraries = [CUDA, ...cudaLibraries(13)];
  const both = [...libraries, ...cudaLibraries(12)];
  const [t4, h200, unknown] = ['0x1eb8', '0x2335', '0x7fff'].map((device) => ({ ...RTX_4090, device }));
  for (const card of [t4, h200]) {
    assert.is(choose({ cards: [{ ...card!, version: '590.44.01' }], libraries }).package?.cuda, 13);
    assert.is(choose({ cards: [card!], libraries: both }).package?.cuda, 12);
    const alone = choose({ cards: [card!], libraries }, 'cuda');
    assert.is(alone.package, null);
    assert.match(
      alone.reason,
      /^the driver 580\.65\.06 is too old to compile the kernels of the CUDA 13 backend for NVIDIA \S+ at \S+; the libraries of CUDA 12 \(libcudart\.so\.12, /,
    );
    assert.match(
      alone.hint ?? '',
      /^update the NVIDIA driver to 590 or newer; or install them from NVIDIA's repository/,
    );
  }
  assert.is(choose({ cards: [unknown!], libraries }).package?.cuda, 13, 'the proof decides');
  const together = choose({ cards: [RTX_4090, h200!], libraries: both });
  assert.is(together.package?.cuda, 12, 'one that suits all cards');
});

test('a card older than all kernels gets CUDA 12, or Vulkan', () => {
  const pascal = { ...RTX_4090, device: '0x1b06' };
  const libraries = [CUDA, LOADER, NVIDIA_ICD, ...cudaLibraries(13)];
  assert.is(choose({ cards: [pascal], libraries: [...libraries, ...cudaLibraries(12)] }).package?.cuda, 12);
  const { package: found, reason } = choose({ cards: [pascal], libraries, vulkan: [NVIDIA_ICD] });
  assert.is(found?.kind, 'vulkan');
  assert.match(
    reason,
    /CUDA was not chosen: the CUDA 13 backend does not support \S+ \S+ at \S+: it needs compute capability 7\.5, the card has 6\.1/,
  );
  assert.match(choose({ cards: [pascal], libraries }, 'cuda').hint ?? '', /svc gpu install vulkan/);
});

test('the chip of a card is known by its PCI device id', () => {
  const chips = {
    '0x13c2': 52, // GeForce GTX 970
    '0x15f8': 60, // Tesla P100
    '0x1c03': 61, // GeForce GTX 1060
    '0x1db6': 70, // Tesla V100
    '0x1e07': 75, // GeForce RTX 2080 Ti
    '0x1eb8': 75, // Tesla T4
    '0x2182': 75, // GeForce GTX 1660 Ti
    '0x20b5': 80, // A100
    '0x2204': 86, // GeForce RTX 3090
    '0x2236': 86, // A10
    '0x2330': 90, // H100
    '0x2335': 90, // H200
    '0x2504': 86, // GeForce RTX 3060
    '0x2684': 89, // GeForce RTX 4090
    '0x27b8': 89, // L4
    '0x2882': 89, // GeForce RTX 4060
    '0x2901': 100, // B200
    '0x2b85': 120, // GeForce RTX 5090
    '0x2d04': 120, // GeForce RTX 5060 Ti
    '0x2f04': 120, // GeForce RTX 5070
  };
  for (const [device, capability] of Object.entries(chips)) assert.is(computeCapability(device), capability, device);
  for (const device of ['', '0x', '0x0001', '0xffff']) assert.is(computeCapability(device), null, device);
});

test('a driver of NVIDIA that is too old for CUDA 13 gets CUDA 12; an older one none', () => {
  const both = [CUDA, ...cudaLibraries(13), ...cudaLibraries(12)];
  const old = { ...RTX_4090, version: '550.54.14' };
  assert.is(choose({ cards: [old], libraries: both }).package?.cuda, 12);
  const older = choose({ cards: [{ ...RTX_4090, version: '470.1' }], libraries: both }, 'cuda');
  assert.is(older.package, null);
  assert.is(older.reason, 'the driver 470.1 is too old for CUDA 12, which needs 525');
});

test('NVIDIA without the libraries of CUDA: Vulkan of its driver, and what CUDA lacks', () => {
  const machine = { cards: [RTX_4090], libraries: [CUDA, LOADER, NVIDIA_ICD], vulkan: [NVIDIA_ICD] };
  const { package: found, reason } = choose(machine);
  assert.is(found?.kind, 'vulkan');
  assert.match(
    reason,
    /^a Vulkan driver for NVIDIA is installed; CUDA was not chosen: the libraries of CUDA 13 \(libcudart\.so\.13, /,
  );
  const wanted = choose(machine, 'cuda');
  assert.is(wanted.package, null);
  assert.match(wanted.hint ?? '', /install them from NVIDIA's repository.*svc gpu install vulkan/);
});

test('NVIDIA without the library of its driver: none, with the reason', () => {
  const { package: found, reason, hint } = choose({ cards: [RTX_4090], libraries: [LOADER] });
  assert.is(found, null);
  assert.match(reason, /libcuda\.so\.1 is not installed/);
  assert.match(hint ?? '', /NVIDIA's driver/);
});

test('AMD and Intel: Vulkan if the loader and a driver for the card are there, otherwise what is missing', () => {
  const libraries = [LOADER, RADV];
  assert.is(choose({ cards: [RADEON], libraries, vulkan: [RADV] }).package?.kind, 'vulkan');
  const intel = { cards: [{ vendor: 'Intel', driver: 'xe' } as const], libraries: [LOADER], vulkan: [] };
  assert.is(choose(intel).reason, 'no Vulkan driver for Intel is installed');
  assert.ok(choose(intel).hint);
  assert.is(choose({ cards: [RADEON], libraries: [LOADER], vulkan: [RADV] }).package, null, 'its library is missing');
  const loaderless = choose({ cards: [RADEON], libraries: [RADV], vulkan: [RADV] });
  assert.is(loaderless.reason, 'the Vulkan loader, libvulkan.so.1, is not installed');
});

test('several cards: the first backend that some card can use', () => {
  const libraries = [CUDA, LOADER, RADV, ...cudaLibraries(13)];
  assert.is(choose({ cards: [RADEON, RTX_4090], libraries, vulkan: [RADV] }).package?.kind, 'cuda');
  const bare = { cards: [{ vendor: 'NVIDIA' } as const, RADEON], libraries: [LOADER, RADV], vulkan: [RADV] };
  assert.is(choose(bare).package?.kind, 'vulkan');
});

test('Vulkan by name is tried without a GPU, if its loader is there; CUDA needs its driver', () => {
  assert.is(choose({ libraries: [LOADER] }, 'vulkan').package?.kind, 'vulkan');
  assert.is(choose({}, 'vulkan').package, null);
  assert.match(choose({}, 'cuda').reason, /no NVIDIA GPU or driver/);
});

test('a platform without backends', () => {
  const { package: found, reason } = chooseBackend(surveyGpu(make({})), { platform: 'plan9-mips' });
  assert.is(found, null);
  assert.is(reason, 'no GPU backend is available for plan9-mips');
});

test("libraries are found through the linker's cache, and only those for this machine", () => {
  const root = make({ libraries: ['libshort.so.1'] });
  writeFileSync(join(root, 'usr/lib64/libshort.so.1'), 'no ELF');
  writeFileSync(join(root, 'usr/lib64/libforeign.so.1'), elf(OTHER_MACHINE));
  mkdirSync(join(root, 'opt/cuda/lib'), { recursive: true });
  mkdirSync(join(root, 'etc'));
  writeFileSync(join(root, 'opt/cuda/lib/libcudart.so.13'), elf());
  writeFileSync(
    join(root, 'etc/ld.so.cache'),
    'glibc-ld.so.cache1.1\0libcudart.so.13\0/opt/cuda/lib/libcudart.so.13\0',
  );
  assert.is(findLibrary('libcudart.so.13', root), join(root, 'opt/cuda/lib/libcudart.so.13'));
  for (const name of ['libshort.so.1', 'libforeign.so.1', 'libnone.so.1'])
    assert.is(findLibrary(name, root), null, name);
});

test('a manifest of a Vulkan driver that is no JSON, or names nothing, is no driver', () => {
  const root = make({ libraries: [RADV], vulkan: [RADV, 'libvulkan_lvp.so', '/opt/none.so'] });
  writeFileSync(join(root, 'usr/share/vulkan/icd.d/7.json'), '{');
  writeFileSync(join(root, 'usr/share/vulkan/icd.d/8.json'), '{"ICD":null}');
  const found = vulkanDrivers(root).map(({ vendor }) => vendor);
  assert.equal(found, ['AMD']);
});

test('the distribution decides which command a hint names', () => {
  assert.is(familyOf('NAME="Ubuntu"\nID=ubuntu\nID_LIKE=debian\n'), 'debian');
  assert.is(familyOf('ID="rocky"\nID_LIKE="rhel centos fedora"\n'), 'fedora');
  assert.is(familyOf('ID=opensuse-tumbleweed\nID_LIKE="opensuse suse"\n'), 'suse');
  assert.is(familyOf('ID=gentoo\n'), undefined);
});

test('the packages are those of the version of libllama, with the digests of package-lock.json', () => {
  const { packages } = JSON.parse(read('package-lock.json')) as {
    packages: Record<string, { readonly version?: string; readonly integrity?: string }>;
  };
  for (const { name, version, integrity, digest } of BACKEND_PACKAGES) {
    assert.is(version, packages['node_modules/node-llama-cpp']?.version, `run node scripts/gpu-packages.js: ${name}`);
    assert.match(digest, /^sha256:[0-9a-f]{64}$/);
    assert.match(integrity, /^sha512-[A-Za-z0-9+/]{86}==$/);
    const locked = packages[`node_modules/${name}`]?.integrity;
    if (locked !== undefined) assert.is(integrity, locked, name);
  }
  assert.ok(BACKEND_PACKAGES.some(({ name }) => packages[`node_modules/${name}`]?.integrity !== undefined));
});

test.run();
