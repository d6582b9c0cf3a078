/**
 * GPUs. What ships computes on the processor; a GPU needs ggml's Vulkan backend, 43 MB, which is an
 * npm package of its own: whoever has a GPU installs it beside svc. It brings a driver into the process, and
 * drivers crash and hang. So it is tried in a child first, once, and engines get it only when that
 * child found a device with it.
 */
import { existsSync, readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { variable } from '../config/environment.ts';
import { gpusOnBus, type Gpu } from './gpu-bus.ts';
import { probeEngine, type EngineProbe } from './probe.ts';

/** Why a GPU is not used, and how that is mended. */
export interface GpuTrouble {
  readonly reason: string;
  readonly hint: string;
}

export interface ExamineOptions {
  /** As of probeEngine. */
  readonly measure: boolean;
  /** Where GPUs are looked for; another place in tests. */
  readonly bus?: string;
}

export interface GpuExamination {
  readonly gpus: readonly Gpu[];
  /** The backend that engines load; undefined: they do without. */
  readonly module: string | undefined;
  /** null: all is well, or there is no GPU. */
  readonly trouble: GpuTrouble | null;
  /** With the backend in it; null where there was nothing to try. */
  readonly probe: EngineProbe | null;
}

const PACKAGES: Readonly<Record<string, string>> = { 'linux-x64': 'linux-x64-vulkan' };
const DRIVER_HINT =
  "install the vendor's Vulkan driver: mesa-vulkan-drivers for AMD and Intel, NVIDIA's own for NVIDIA; then restart svc";

let examined: Promise<GpuExamination> | undefined;

/** The backend for engines, looked for and tried once in the life of this process. Never rejects. */
export async function usableGpu(): Promise<GpuExamination> {
  return await (examined ??= examineGpu({ measure: false }));
}

/** Looks and tries. A backend named by GGML_BACKEND_PATH is tried even where no GPU is seen. Never rejects. */
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

/** Of the version that our libllama was built with: the modules of another one do not fit. */
function findBackend(): string | GpuTrouble {
  const platform = `${process.platform}-${process.arch}`;
  const name = PACKAGES[platform];
  if (name === undefined) {
    return {
      reason: `there is no GPU backend for ${platform}`,
      hint: 'svc works on the processor; a backend of your own can be named by GGML_BACKEND_PATH',
    };
  }
  const version = backendVersion();
  const hint = `install it where svc is installed (with -g if svc is): npm install @node-llama-cpp/${name}@${version}; then restart svc`;
  const installed = installedPackage(`@node-llama-cpp/${name}`);
  if (installed === null) return { reason: 'the Vulkan backend is not installed', hint };
  if (installed.version !== version) {
    return { reason: `the Vulkan backend is of version ${installed.version}, svc needs ${version}`, hint };
  }
  const path = join(installed.directory, 'bins', name, 'libggml-vulkan.so');
  return existsSync(path) ? path : { reason: `the Vulkan backend lacks its module ${path}`, hint };
}

function installedPackage(name: string): { readonly directory: string; readonly version: string } | null {
  try {
    const directory = dirname(dirname(createRequire(import.meta.url).resolve(name)));
    const manifest = JSON.parse(readFileSync(join(directory, 'package.json'), 'utf8')) as { version: string };
    return { directory, version: manifest.version };
  } catch {
    return null;
  }
}

/** `src/engine` and `dist/engine` are equally deep. */
function backendVersion(): string {
  const manifest = JSON.parse(readFileSync(new URL('../../package.json', import.meta.url), 'utf8')) as {
    devDependencies: Readonly<Record<string, string>>;
  };
  return manifest.devDependencies['node-llama-cpp'] as string;
}

/** What a probe with a GPU backend says of it; null: a device came of it. */
export function troubleOf({ error, devices, log, stderr }: EngineProbe): GpuTrouble | null {
  if (error !== null) {
    const hint = 'update the driver of the GPU; svc goes on without it';
    return { reason: `the backend was tried in a process of its own: ${error.message}`, hint };
  }
  if (devices.some((device) => device.type !== 'cpu')) return null;
  const said = [...log, ...stderr.split('\n')];
  const line = (pattern: RegExp): string | undefined => said.find((each) => pattern.test(each))?.trim();

  const old = line(/Vulkan 1\.2 required|driver version is insufficient/i);
  if (old !== undefined) {
    return { reason: `its driver is too old for the backend (${old})`, hint: 'update the driver of the GPU' };
  }
  if (line(/libvulkan[^\s:]{0,99}: cannot open/) !== undefined) {
    return {
      reason: 'the Vulkan loader, libvulkan.so.1, is not installed',
      hint: 'install libvulkan1 (Debian, Ubuntu) or vulkan-loader (Fedora)',
    };
  }
  const foreign = line(/failed to load|failed to find ggml_backend_init|incompatible API version/);
  if (foreign !== undefined) {
    const hint = 'install the one that belongs to this svc; see docs/doctor.md';
    return { reason: `the backend does not fit (${foreign})`, hint };
  }
  return { reason: 'the backend found no device: no driver offers one', hint: DRIVER_HINT };
}

/** A GPU that the kernel drives with nothing is not to be had by anything above it. */
function withDriver(gpus: readonly Gpu[], trouble: GpuTrouble | null): GpuTrouble | null {
  const bare = gpus.find(({ driver }) => driver === null);
  if (trouble === null || bare === undefined) return trouble;
  return {
    reason: `the kernel has no driver for ${bare.name}; ${trouble.reason}`,
    hint: `${DRIVER_HINT}. ${trouble.hint}`,
  };
}
