/** Backends of ggml that misbehave as drivers do, each a shared library of a few lines; and the real one, with a software GPU. */
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

/** The path of the library; null: there is no compiler here. */
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
 * What makes an engine use the Vulkan backend on the processor's own Vulkan driver (Debian:
 * mesa-vulkan-drivers libvulkan1); null where these are not installed. ggml takes a device that is no
 * GPU only when it is named.
 */
export const SOFTWARE_GPU: Readonly<Record<string, string>> | null =
  existsSync(MODULE) && existsSync(LAVAPIPE)
    ? { GGML_BACKEND_PATH: MODULE, GGML_VK_VISIBLE_DEVICES: '0', VK_ICD_FILENAMES: LAVAPIPE }
    : null;
