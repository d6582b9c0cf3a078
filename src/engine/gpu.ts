/**
 * GPU support. The svc package computes on the CPU. A GPU needs a backend of ggml, for CUDA or Vulkan, which
 * `svc gpu install` installs (gpu/installed.ts). It loads a driver into the process, and drivers crash and hang. So it
 * is tried once in a child process, and engines load it only if the child found a device with it.
 */
import { existsSync, readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { variable } from '../process/environment.ts';
import { isExecutable } from '../process/own-files.ts';
import type { Gpu } from './gpu/cards.ts';
import { NO_GPU_HINT, chooseBackend, nameOfKind } from './gpu/choose.ts';
import { backendOfUser } from './gpu/installed.ts';
import { BACKEND_PACKAGES } from './gpu/packages.ts';
import { surveyGpu, type GpuSurvey } from './gpu/survey.ts';
import { probeEngine, type EngineProbe } from './probe.ts';

/** Why a GPU is not used, and how to fix it. */
export interface GpuTrouble {
  readonly reason: string;
  readonly hint: string;
}

export interface ExamineOptions {
  /** See ProbeOptions.measure. */
  readonly measure: boolean;
  /** Directory that stands for `/` while cards and drivers are looked for; tests replace it. */
  readonly root?: string;
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

const DRIVER_HINT =
  "install the vendor's Vulkan driver: mesa-vulkan-drivers for AMD and Intel, NVIDIA's own for NVIDIA; then restart svc";
const INSTALL = 'run `svc gpu install`, then `svc restart`';

let examined: Promise<GpuExamination> | undefined;

/** Finds and tries the backend for engines, once per process. Never rejects. */
export async function usableGpu(): Promise<GpuExamination> {
  return await (examined ??= examineGpu({ measure: false }));
}

/**
 * Finds and tries the backend: the one of GGML_BACKEND_PATH, the installed one, or that of a package beside svc. Only
 * the last is not tried if no GPU is found. Never rejects.
 */
export async function examineGpu({ measure, root }: ExamineOptions): Promise<GpuExamination> {
  const survey = surveyGpu(root);
  const { gpus } = survey;
  const nothing = { gpus, module: undefined, trouble: null, probe: null };
  const { installed, isOther } = backendOfUser();
  const named = variable('GGML_BACKEND_PATH') ?? installed?.module;
  if (named === undefined && gpus.length === 0 && !isOther) return nothing;
  const beside = gpus.length === 0 ? undefined : packageBesideSvc();
  const found = named ?? beside ?? whyNone(survey, isOther);
  if (typeof found !== 'string') return { ...nothing, trouble: withDriver(gpus, found) };
  const probe = await probeEngine({ measure, gpuModule: found });
  const trouble = troubleOf(probe);
  return { gpus, module: trouble === null ? found : undefined, trouble: withDriver(gpus, trouble), probe };
}

/** Tries a backend in a child process. Returns why engines cannot use it; null: it has a device. Never rejects. */
export async function tryBackend(module: string): Promise<GpuTrouble | null> {
  return troubleOf(await probeEngine({ measure: false, gpuModule: module }));
}

/** Why there is no backend, and the command that installs it or what it needs. */
function whyNone(survey: GpuSurvey, isOther: boolean): GpuTrouble {
  if (isOther) return { reason: 'the installed backend is for another version of svc', hint: INSTALL };
  const { package: chosen, reason, hint } = chooseBackend(survey);
  if (chosen === null) return { reason, hint: hint ?? NO_GPU_HINT };
  return { reason: `the ${nameOfKind(chosen.kind)} backend is not installed`, hint: INSTALL };
}

/**
 * The backend in an npm package beside svc, of the version that our libllama was built with; others are incompatible.
 */
function packageBesideSvc(): string | undefined {
  for (const { name, version, file, platform } of BACKEND_PACKAGES) {
    if (platform !== `${process.platform}-${process.arch}`) continue;
    const beside = installedPackage(name);
    if (beside?.version !== version) continue;
    const path = join(beside.directory, file);
    if (existsSync(path)) return path;
  }
  return undefined;
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
    return { reason: `the GPU driver is too old for the backend (${old})`, hint: 'update the GPU driver' };
  }
  if (line(/libvulkan[^\s:]{0,99}: cannot open/) !== undefined) {
    return {
      reason: 'the Vulkan loader, libvulkan.so.1, is not installed',
      hint: 'install libvulkan1 (Debian, Ubuntu) or vulkan-loader (Fedora)',
    };
  }
  const missing = line(/: cannot open shared object file/);
  if (missing !== undefined) {
    // "failed to load PATH: LIBRARY: cannot open shared object file"
    const library = missing.split(': ').find((part) => part.startsWith('lib')) ?? 'that it names';
    return {
      reason: `the library ${library}, which the backend needs, is not installed`,
      hint: `install the package of this system that has ${library}`,
    };
  }
  const foreign = line(/failed to load|failed to find ggml_backend_init|incompatible API version/);
  if (foreign !== undefined) {
    const hint = 'install the backend version that this svc needs: svc gpu install';
    return { reason: `the backend is incompatible with this svc (${foreign})`, hint };
  }
  return { reason: 'the backend found no device: no installed driver provides one', hint: DRIVER_HINT };
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
