/** ggml backends that fail the way GPU drivers fail (tiny shared libraries), and the real one with a software GPU. */
import { execFile } from 'node:child_process';
import { existsSync } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';

export const BROKEN_BACKENDS = {
  crash: '#include <stdlib.h>\n__attribute__((constructor)) static void load(void) { abort(); }',
  hang: '#include <unistd.h>\n__attribute__((constructor)) static void load(void) { for (;;) pause(); }',
  old: `#include <stdio.h>
void *ggml_backend_init(void) {
  fprintf(stderr, "ggml_vulkan: Error: Vulkan 1.2 required.\\n");
  return 0;
}`,
  deviceless: 'void *ggml_backend_init(void) { return 0; }',
  foreign: 'int nothing;',
} as const;

/** Compiles the backend and returns the path of the library; null if no C compiler is installed. */
export async function buildBackend(kind: keyof typeof BROKEN_BACKENDS, directory: string): Promise<string | null> {
  const source = join(directory, `${kind}.c`);
  const library = join(directory, `libggml-${kind}.so`);
  await writeFile(source, BROKEN_BACKENDS[kind]);
  try {
    await promisify(execFile)('cc', ['-shared', '-fPIC', '-o', library, source]);
    return library;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return null;
    throw error;
  }
}

const MODULE = fileURLToPath(
  new URL(
    '../../node_modules/@node-llama-cpp/linux-x64-vulkan/bins/linux-x64-vulkan/libggml-vulkan.so',
    import.meta.url,
  ),
);
const LAVAPIPE = '/usr/share/vulkan/icd.d/lvp_icd.x86_64.json';

/**
 * Environment that makes an engine use the Vulkan backend on the software driver lavapipe (Debian:
 * mesa-vulkan-drivers libvulkan1); null if these are not installed. ggml uses a device that is not a GPU
 * only if it is selected explicitly (GGML_VK_VISIBLE_DEVICES).
 */
export const SOFTWARE_GPU: Readonly<Record<string, string>> | null =
  existsSync(MODULE) && existsSync(LAVAPIPE)
    ? { GGML_BACKEND_PATH: MODULE, GGML_VK_VISIBLE_DEVICES: '0', VK_ICD_FILENAMES: LAVAPIPE }
    : null;

/** The driver compiles its shaders on the processor: ten seconds on two idle cores, minutes on a slow machine. */
export const COMPILED_MS = 600_000;
