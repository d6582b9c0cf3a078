/** Made by scripts/gpu-packages.js: the npm packages of GPU backends that fit this version of libllama. */

export type BackendKind = 'cuda' | 'vulkan';

/** Compute capabilities, times ten, for which a CUDA backend has kernels. */
export interface Kernels {
  /** Those with machine code. It runs on later minor versions, too: that for 86 on 89, but not on 90. */
  readonly machine: readonly number[];
  /** Lowest one for which the driver can compile the kernels, when they are first used. */
  readonly compiled_from: number;
  /** First version of the driver that can compile them. */
  readonly compiling_driver: number;
}

export interface BackendPackage {
  readonly name: string;
  readonly version: string;
  /** `process.platform` and `process.arch`. */
  readonly platform: string;
  readonly kind: BackendKind;
  /** Major version of CUDA whose libraries it needs; null: none. */
  readonly cuda: 12 | 13 | null;
  /** Path of the backend in the package. */
  readonly file: string;
  /** null: the driver compiles all kernels. */
  readonly kernels: Kernels | null;
  /** Digest of the tarball as npm writes it (SHA-512). */
  readonly integrity: string;
  /** SHA-256 of the tarball: `sha256:` and 64 hexadecimal digits. */
  readonly digest: string;
  readonly size_bytes: number;
  /** Size of the backend. */
  readonly library_bytes: number;
}

export const BACKEND_PACKAGES: readonly BackendPackage[] = [
  {
    name: '@node-llama-cpp/linux-x64-cuda',
    version: '3.22.1',
    platform: 'linux-x64',
    kind: 'cuda',
    cuda: 13,
    file: 'bins/linux-x64-cuda/libggml-cuda.so',
    kernels: { machine: [86, 89, 120, 121], compiled_from: 75, compiling_driver: 590 },
    integrity: 'sha512-8rQCjyNNLZJUFit+YpjwlC4hwkKgOMIkB2wuycKBf8NU2O3ySKbiWZQ8aw9ku2nUTXjSnUIrE6KB88itduTBuA==',
    digest: 'sha256:d6cd3ff39a43b024816952e0bc6452d6711608d26256ff6eb0fe8cf7ff55bb2c',
    size_bytes: 142898030,
    library_bytes: 158993272,
  },
  {
    name: '@node-llama-cpp/linux-x64-cuda-ext',
    version: '3.22.1',
    platform: 'linux-x64',
    kind: 'cuda',
    cuda: 12,
    file: 'bins/linux-x64-cuda/fallback/libggml-cuda.so',
    kernels: { machine: [86], compiled_from: 50, compiling_driver: 550 },
    integrity: 'sha512-4e5ajkiM2aR2WAdB/N/ACk4weEhHvOAIrzxZPsIX0xDFW5+6hhShuy1/vs88SK9NGdgAco9IyE28eYS0H1efpA==',
    digest: 'sha256:1c4817215f51d0ebea37ea684a409a418e62cfb19fcbb5b6e0300e50c6ee9bee',
    size_bytes: 176664119,
    library_bytes: 374450984,
  },
  {
    name: '@node-llama-cpp/linux-x64-vulkan',
    version: '3.22.1',
    platform: 'linux-x64',
    kind: 'vulkan',
    cuda: null,
    file: 'bins/linux-x64-vulkan/libggml-vulkan.so',
    kernels: null,
    integrity: 'sha512-bBxqU+JOcBu1nb5Qj2zcMci+JByT1E8EajHvYodyNfVIPkEhXh+/HMwR1/BT7xP08YK0hks+kM8fglER0P8JEg==',
    digest: 'sha256:e10577190fc4bd1649d3b655588e5c7a85fc6b6dbf7136fee596cbe9e25521e7',
    size_bytes: 24311427,
    library_bytes: 43255472,
  },
];
