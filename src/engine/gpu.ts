/**
 * GPU support. The svc package computes on the CPU. A GPU needs ggml's Vulkan backend (43 MB), a separate npm package
 * that users install beside svc. It loads a driver into the process, and drivers crash and hang. So it is tried once in
 * a child process, and engines load it only if the child found a device with it.
 */
import { existsSync, readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { variable } from '../process/environment.ts';
import { isExecutable, ownText } from '../process/own-files.ts';
import { gpusOnBus, type Gpu } from './gpu-bus.ts';
import { probeEngine, type EngineProbe } from './probe.ts';

/** Why a GPU is not used, and how to fix it. */
export interface GpuTrouble {
  readonly reason: string;
  readonly hint: string;
}

export interface ExamineOptions {
  /** See ProbeOptions.measure. */
  readonly measure: boolean;
  /** sysfs directory of the bus; tests replace it. */
  readonly bus?: string;
}

export interface GpuExamination {
  readonly gpus: readonly Gpu[];
  /** The backend that engines load; undefined: none. */
  readonly module: string | undefined;
  /** null: no problem, or no GPU. */
  readonly trouble: GpuTrouble | null;
  /** Probe with the backend; null: there was no backend to try. */
  readonly probe: EngineProbe | null;
}

const PACKAGES: Readonly<Record<string, string>> = { 'linux-x64': 'linux-x64-vulkan' };
const DRIVER_HINT =
  "install the vendor's Vulkan driver: mesa-vulkan-drivers for AMD and Intel, NVIDIA's own for NVIDIA; then restart svc";

let examined: Promise<GpuExamination> | undefined;

/** Finds and tries the backend for engines, once per process. Never rejects. */
export async function usableGpu(): Promise<GpuExamination> {
  return await (examined ??= examineGpu({ measure: false }));
}

/** Finds and tries the backend. One named by GGML_BACKEND_PATH is tried even if no GPU is found. Never rejects. */
export async function examineGpu({ measure, bus }: ExamineOptions): Promise<GpuExamination> {
  const gpus = gpusOnBus(bus);
  const nothing = { gpus, module: undefined, trouble: null, probe: null };
  const named = variable('GGML_BACKEND_PATH');
  if (named === undefined && gpus.length === 0) return nothing;
  const found = named === undefined ? findBackend() : named;
  if (typeof found !== 'string') return { ...nothing, trouble: withDriver(gpus, found) };
  const probe = await probeEngine({ measure, gpuModule: found });
  const trouble = troubleOf(probe);
  return { gpus, module: trouble === null ? found : undefined, trouble: withDriver(gpus, trouble), probe };
}

/** Finds the backend of the version that our libllama was built with: other versions are incompatible. */
function findBackend(): string | GpuTrouble {
  const platform = `${process.platform}-${process.arch}`;
  const name = PACKAGES[platform];
  if (name === undefined) {
    return {
      reason: `no GPU backend is available for ${platform}`,
      hint: 'svc runs on the CPU; to use your own ggml backend, set GGML_BACKEND_PATH',
    };
  }
  const version = backendVersion();
  const install = `npm install @node-llama-cpp/${name}@${version}`;
  const hint = isExecutable
    ? `in any folder run: ${install}; set GGML_BACKEND_PATH to libggml-vulkan.so in it; then restart svc`
    : `install it where svc is installed (with -g if svc is): ${install}; then restart svc`;
  const installed = installedPackage(`@node-llama-cpp/${name}`);
  if (installed === null) return { reason: 'the Vulkan backend is not installed', hint };
  if (installed.version !== version) {
    return { reason: `the Vulkan backend has version ${installed.version}, but svc needs ${version}`, hint };
  }
  const path = join(installed.directory, 'bins', name, 'libggml-vulkan.so');
  return existsSync(path) ? path : { reason: `the Vulkan backend package lacks ${path}`, hint };
}

function installedPackage(name: string): { readonly directory: string; readonly version: string } | null {
  // An executable has no packages; a folder above it may be anyone's.
  if (isExecutable) return null;
  try {
    const directory = dirname(dirname(createRequire(import.meta.url).resolve(name)));
    const manifest = JSON.parse(readFileSync(join(directory, 'package.json'), 'utf8')) as { version: string };
    return { directory, version: manifest.version };
  } catch {
    return null;
  }
}

function backendVersion(): string {
  const manifest = JSON.parse(ownText('package.json')) as {
    devDependencies: Readonly<Record<string, string>>;
  };
  return manifest.devDependencies['node-llama-cpp'] as string;
}

/** Problem that a probe with a GPU backend found; null: the backend has a device. */
export function troubleOf({ error, devices, log, stderr }: EngineProbe): GpuTrouble | null {
  if (error !== null) {
    const hint = 'update the GPU driver; svc runs on the CPU meanwhile';
    return { reason: `the backend failed when tried in a child process: ${error.message}`, hint };
  }
  if (devices.some((device) => device.type !== 'cpu')) return null;
  const said = [...log, ...stderr.split('\n')];
  const line = (pattern: RegExp): string | undefined => said.find((each) => pattern.test(each))?.trim();

  const old = line(/Vulkan 1\.2 required|driver version is insufficient/i);
  if (old !== undefined) {
    return { reason: `the GPU driver is too old for the Vulkan backend (${old})`, hint: 'update the GPU driver' };
  }
  if (line(/libvulkan[^\s:]{0,99}: cannot open/) !== undefined) {
    return {
      reason: 'the Vulkan loader, libvulkan.so.1, is not installed',
      hint: 'install libvulkan1 (Debian, Ubuntu) or vulkan-loader (Fedora)',
    };
  }
  const foreign = line(/failed to load|failed to find ggml_backend_init|incompatible API version/);
  if (foreign !== undefined) {
    const hint = 'install the backend version that this svc needs; see docs/doctor.md';
    return { reason: `the backend is incompatible with this svc (${foreign})`, hint };
  }
  return { reason: 'the Vulkan backend found no device: no installed driver provides one', hint: DRIVER_HINT };
}

/** Adds that a GPU has no kernel driver, without which nothing above can use it. */
function withDriver(gpus: readonly Gpu[], trouble: GpuTrouble | null): GpuTrouble | null {
  const bare = gpus.find(({ driver }) => driver === null);
  if (trouble === null || bare === undefined) return trouble;
  return {
    reason: `the kernel has no driver for ${bare.name}; ${trouble.reason}`,
    hint: `${DRIVER_HINT}. ${trouble.hint}`,
  };
}
