/** What a machine lacks for its GPU: the reason, and the command of its distribution that installs it. */
import { readFileSync } from 'node:fs';
import { orElse } from '../../protocol/foreign-text.ts';
import type { Gpu } from './cards.ts';
import type { CudaVersion } from './survey.ts';

export interface Missing {
  readonly reason: string;
  readonly hint: string;
}

type Family = 'debian' | 'fedora' | 'suse' | 'arch';

const COMMANDS: Readonly<Record<Family, string>> = {
  debian: 'sudo apt install',
  fedora: 'sudo dnf install',
  suse: 'sudo zypper install',
  arch: 'sudo pacman -S',
};
const LOADER: Readonly<Record<Family, string>> = {
  debian: 'libvulkan1',
  fedora: 'vulkan-loader',
  suse: 'libvulkan1',
  arch: 'vulkan-icd-loader',
};
const MESA: Readonly<Record<Family, string>> = {
  debian: 'mesa-vulkan-drivers',
  fedora: 'mesa-vulkan-drivers',
  suse: 'libvulkan_radeon libvulkan_intel',
  arch: 'vulkan-radeon vulkan-intel',
};

/** Family of the distribution in os-release; undefined: another one. */
export function familyOf(osRelease: string): Family | undefined {
  const words = [...osRelease.matchAll(/^(?:ID|ID_LIKE)="?([^"\n]*)"?$/gm)].flatMap(([, text = '']) => text.split(' '));
  const families = {
    debian: 'debian',
    ubuntu: 'debian',
    fedora: 'fedora',
    rhel: 'fedora',
    suse: 'suse',
    opensuse: 'suse',
    arch: 'arch',
  } as const;
  return words
    .map((word) => (families as Readonly<Record<string, Family>>)[word])
    .find((family) => family !== undefined);
}

function family(): Family | undefined {
  return familyOf(orElse(() => readFileSync('/etc/os-release', 'utf8'), ''));
}

/** `install X: sudo apt install X`, by the distribution of this machine. */
function install(what: string, packages: Readonly<Record<Family, string>>): string {
  const here = family();
  return here === undefined ? `install ${what}` : `install ${what}: ${COMMANDS[here]} ${packages[here]}`;
}

/** In the names of NVIDIA's packages. */
const CUDA_RELEASE: Readonly<Record<CudaVersion, string>> = { 13: '13-0', 12: '12-4' };

const NVIDIA_DRIVER = "install NVIDIA's driver: https://docs.nvidia.com/datacenter/tesla/driver-installation-guide";

export const PREPARATION = {
  driver(gpu: Gpu): Missing {
    const reason = `the kernel has no driver for ${gpu.name}`;
    return { reason, hint: gpu.vendor === 'NVIDIA' ? NVIDIA_DRIVER : 'use a newer kernel, or install its firmware' };
  },
  cudaDriver(gpu: Gpu | undefined): Missing {
    if (gpu === undefined)
      return { reason: 'no NVIDIA GPU or driver was found', hint: 'use Vulkan: svc gpu install vulkan' };
    return { reason: "NVIDIA's driver library libcuda.so.1 is not installed", hint: NVIDIA_DRIVER };
  },
  cudaRuntime(version: CudaVersion, libraries: readonly string[]): Missing {
    const here = family();
    const packages = `cuda-cudart-${CUDA_RELEASE[version]} libcublas-${CUDA_RELEASE[version]}`;
    const command = here === 'debian' || here === 'fedora' ? `: ${COMMANDS[here]} ${packages}` : '';
    return {
      reason: `the libraries of CUDA ${String(version)} (${libraries.join(', ')}) are not installed`,
      hint: `install them from NVIDIA's repository${command}; or use Vulkan: svc gpu install vulkan`,
    };
  },
  vulkanLoader(): Missing {
    return {
      reason: 'the Vulkan loader, libvulkan.so.1, is not installed',
      hint: install('the Vulkan loader', LOADER),
    };
  },
  vulkanDriver(gpu: Gpu): Missing {
    const reason = `no Vulkan driver for ${gpu.vendor} is installed`;
    return { reason, hint: gpu.driver === 'nvidia' ? NVIDIA_DRIVER : install('the Vulkan drivers of Mesa', MESA) };
  },
} as const;
