/** Chooses the backend for the GPUs of this machine: CUDA, Vulkan or none, with the reason. */
import type { Gpu, Vendor } from './cards.ts';
import { BACKEND_PACKAGES, type BackendKind, type BackendPackage } from './packages.ts';
import { PREPARATION, type Missing } from './preparation.ts';
import { CUDA_VERSIONS, cudaLibraries, type CudaVersion, type GpuSurvey } from './survey.ts';

export interface BackendChoice {
  /** null: none can be used. */
  readonly package: BackendPackage | null;
  readonly reason: string;
  /** What to install; null: nothing is missing. */
  readonly hint: string | null;
}

export interface ChoiceOptions {
  /** The user's choice, tried also if no GPU is found. */
  readonly wanted?: BackendKind | undefined;
  /** Tests replace these. */
  readonly platform?: string;
  readonly packages?: readonly BackendPackage[];
}

/** First driver that supports each version of CUDA. */
const LEAST_DRIVER: Readonly<Record<CudaVersion, number>> = { 13: 580, 12: 525 };

/** `CUDA`, `Vulkan`. */
export function nameOfKind(kind: BackendKind): string {
  return { cuda: 'CUDA', vulkan: 'Vulkan' }[kind];
}

/** For a choice without a hint of its own. */
export const NO_GPU_HINT = 'svc runs on the CPU; if there is a GPU, check that the system lists it: lspci';

export function chooseBackend(
  survey: GpuSurvey,
  { wanted, platform = `${process.platform}-${process.arch}`, packages = BACKEND_PACKAGES }: ChoiceOptions = {},
): BackendChoice {
  const own = packages.filter((each) => each.platform === platform);
  if (own.length === 0) {
    return none(
      `no GPU backend is available for ${platform}`,
      'svc runs on the CPU; to use your own ggml backend, set GGML_BACKEND_PATH',
    );
  }
  const bare = survey.gpus.find(({ driver }) => driver === null);
  if (wanted === undefined && survey.gpus.length === 0) return none('no GPU was found on the PCI bus', null);
  if (wanted === undefined && bare !== undefined && survey.gpus.length === 1) {
    const { reason, hint } = PREPARATION.driver(bare);
    return none(reason, hint);
  }
  const cuda = chooseCuda(survey, own);
  if (wanted === 'cuda') return cuda;
  if (wanted === undefined && cuda.package !== null) return cuda;
  const vulkan = chooseVulkan(survey, own, wanted === 'vulkan');
  // For a card of NVIDIA, the reason against CUDA is of interest, too.
  const hasNvidia = survey.gpus.some(({ driver }) => driver === 'nvidia');
  return wanted === undefined && hasNvidia
    ? { ...vulkan, reason: `${vulkan.reason}; CUDA was not chosen: ${cuda.reason}` }
    : vulkan;
}

function chooseCuda(survey: GpuSurvey, packages: readonly BackendPackage[]): BackendChoice {
  const cards = survey.gpus.filter(({ vendor }) => vendor === 'NVIDIA');
  const version = cards[0]?.driverVersion ?? null;
  if (!survey.hasCudaDriver) {
    const { reason, hint } = PREPARATION.cudaDriver(cards[0]);
    return none(reason, hint);
  }
  const supported = CUDA_VERSIONS.filter((cuda) => isAtLeast(version, LEAST_DRIVER[cuda]));
  if (supported.length === 0) {
    const least = String(LEAST_DRIVER[12]);
    return none(
      `the driver ${version ?? ''} is too old for CUDA 12, which needs ${least}`,
      `update the driver to ${least} or newer`,
    );
  }
  const candidates = supported.flatMap((cuda) =>
    packages
      .filter((each) => each.cuda === cuda)
      .map((each) => ({ cuda, package: each, obstacle: obstacleOf(each, cards) })),
  );
  const fitting = candidates.filter(({ obstacle }) => obstacle === undefined);
  const found = fitting.find(({ cuda }) => survey.cudaRuntimes.includes(cuda));
  if (found !== undefined) {
    const driver = version === null ? 'the driver' : `the driver ${version}`;
    const reason = `${driver} and the libraries of CUDA ${String(found.cuda)} are installed`;
    return { package: found.package, reason, hint: null };
  }
  const missing = [
    ...candidates.flatMap(({ obstacle }) => obstacle ?? []),
    ...fitting.slice(0, 1).map(({ cuda }) => PREPARATION.cudaRuntime(cuda, cudaLibraries(cuda))),
  ];
  if (missing.length === 0) return none('no CUDA backend is available for this platform', null);
  return none(missing.map(({ reason }) => reason).join('; '), missing.map(({ hint }) => hint).join('; or '));
}

/** Why a card cannot run the kernels of a package. undefined: each card can, or its chip is not known. */
function obstacleOf({ cuda, kernels }: BackendPackage, cards: readonly Gpu[]): Missing | undefined {
  for (const { name, capability, driverVersion } of cards) {
    if (kernels === null || capability === null) continue;
    const major = Math.floor(capability / 10);
    if (kernels.machine.some((each) => Math.floor(each / 10) === major && each <= capability)) continue;
    const backend = `the CUDA ${String(cuda)} backend`;
    if (capability < kernels.compiled_from) {
      const needed = versionOf(kernels.compiled_from);
      const own = versionOf(capability);
      return {
        reason: `${backend} does not support ${name}: it needs compute capability ${needed}, the card has ${own}`,
        hint: 'use Vulkan: svc gpu install vulkan',
      };
    }
    if (isAtLeast(driverVersion, kernels.compiling_driver)) continue;
    return {
      reason: `the driver ${driverVersion ?? ''} is too old to compile the kernels of ${backend} for ${name}`,
      hint: `update the NVIDIA driver to ${String(kernels.compiling_driver)} or newer`,
    };
  }
  return undefined;
}

/** `7.5` of 75, as NVIDIA writes a compute capability. */
function versionOf(capability: number): string {
  return (capability / 10).toFixed(1);
}

/** True for an unknown version. */
function isAtLeast(version: string | null, least: number): boolean {
  return version === null || Number.parseInt(version, 10) >= least;
}

function chooseVulkan(survey: GpuSurvey, packages: readonly BackendPackage[], isWanted: boolean): BackendChoice {
  const found = packages.find(({ kind }) => kind === 'vulkan');
  if (found === undefined) return none('no Vulkan backend is available for this platform', null);
  if (!survey.hasVulkanLoader) {
    const { reason, hint } = PREPARATION.vulkanLoader();
    return none(reason, hint);
  }
  const driven = survey.gpus.filter(
    ({ vendor, driver }) => driver !== null && survey.vulkanDrivers.some((each) => each.vendor === vendor),
  );
  if (driven.length > 0) {
    return { package: found, reason: `a Vulkan driver for ${vendorsOf(driven)} is installed`, hint: null };
  }
  if (isWanted) return { package: found, reason: 'it was requested; no Vulkan driver of a GPU was found', hint: null };
  const { reason, hint } = PREPARATION.vulkanDriver(survey.gpus[0] as Gpu);
  return none(reason, hint);
}

function vendorsOf(gpus: readonly Gpu[]): string {
  const vendors = new Set<Vendor>(gpus.map(({ vendor }) => vendor));
  return [...vendors].join(' and ');
}

function none(reason: string, hint: string | null): BackendChoice {
  return { package: null, reason, hint };
}
