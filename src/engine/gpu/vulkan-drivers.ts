/** Lists the Vulkan drivers that the Vulkan loader finds: manifests (ICD files) that name a library. Linux only. */
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { orElse, parsedJson } from '../../protocol/foreign-text.ts';
import type { Vendor } from './cards.ts';
import { findLibrary } from './libraries.ts';

export interface VulkanDriver {
  /** Path of the manifest. */
  readonly manifest: string;
  /** Cards that it drives; null: it computes on the processor, or is unknown. */
  readonly vendor: Vendor | null;
}

const FOLDERS = ['etc', 'usr/local/etc', 'usr/local/share', 'usr/share'].map((base) => `${base}/vulkan/icd.d`);
/** By the file name of the library. */
const VENDORS: readonly (readonly [RegExp, Vendor])[] = [
  [/nvidia|nouveau/i, 'NVIDIA'],
  [/radeon|amdvlk/i, 'AMD'],
  [/intel/i, 'Intel'],
];

/** Returns drivers whose library exists. @param root directory that stands for `/`; tests replace it */
export function vulkanDrivers(root = '/'): VulkanDriver[] {
  return FOLDERS.flatMap((folder) => {
    const names = orElse(() => readdirSync(join(root, folder)).sort(), []);
    return names.filter((name) => name.endsWith('.json')).map((name) => join(root, folder, name));
  }).flatMap((manifest): VulkanDriver[] => {
    const library = libraryIn(manifest);
    if (library === null || !exists(library, manifest, root)) return [];
    const vendor = VENDORS.find(([pattern]) => pattern.test(library))?.[1] ?? null;
    return [{ manifest, vendor }];
  });
}

function libraryIn(manifest: string): string | null {
  const value = parsedJson(orElse(() => readFileSync(manifest, 'utf8'), '')) as
    { readonly ICD?: { readonly library_path?: unknown } | null } | null | undefined;
  const path = value?.ICD?.library_path;
  return typeof path === 'string' ? path : null;
}

/** A path is absolute or relative to the manifest; a mere name is searched by the linker. */
function exists(library: string, manifest: string, root: string): boolean {
  if (!library.includes('/')) return findLibrary(library, root) !== null;
  return existsSync(library.startsWith('/') ? join(root, library) : join(dirname(manifest), library));
}
