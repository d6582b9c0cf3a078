/** What this machine has for a GPU: the cards, the drivers' libraries, and those that backends need. Loads nothing. */
import { gpusOnBus, type Gpu } from './cards.ts';
import { findLibrary } from './libraries.ts';
import { vulkanDrivers, type VulkanDriver } from './vulkan-drivers.ts';

/** Major versions of CUDA for which a backend exists, the best first. */
export const CUDA_VERSIONS = [13, 12] as const;
export type CudaVersion = (typeof CUDA_VERSIONS)[number];

export interface GpuSurvey {
  readonly gpus: readonly Gpu[];
  /** NVIDIA's driver library is installed. */
  readonly hasCudaDriver: boolean;
  /** Versions of CUDA whose runtime libraries are all installed. */
  readonly cudaRuntimes: readonly CudaVersion[];
  readonly hasVulkanLoader: boolean;
  readonly vulkanDrivers: readonly VulkanDriver[];
}

const CUDA_DRIVER = 'libcuda.so.1';
const VULKAN_LOADER = 'libvulkan.so.1';

/** Libraries of CUDA that its backend loads; they are in NVIDIA's CUDA packages, not in the driver. */
export function cudaLibraries(version: CudaVersion): string[] {
  return [`libcudart.so.${String(version)}`, `libcublas.so.${String(version)}`, `libcublasLt.so.${String(version)}`];
}

/** @param root directory that stands for `/`; tests replace it */
export function surveyGpu(root = '/'): GpuSurvey {
  const isThere = (name: string): boolean => findLibrary(name, root) !== null;
  return {
    gpus: gpusOnBus(root),
    hasCudaDriver: isThere(CUDA_DRIVER),
    cudaRuntimes: CUDA_VERSIONS.filter((version) => cudaLibraries(version).every(isThere)),
    hasVulkanLoader: isThere(VULKAN_LOADER),
    vulkanDrivers: vulkanDrivers(root),
  };
}
