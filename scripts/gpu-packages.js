/**
 * Writes src/engine/gpu/packages.ts: the npm packages of GPU backends, with their digests, for the version of
 * node-llama-cpp in package-lock.json. Run it after that version has changed. It downloads the packages (340 MB) from
 * the registry that npm is configured for; a digest in package-lock.json must be the same.
 *
 *   node scripts/gpu-packages.js
 */
import { createHash } from 'node:crypto';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { format, resolveConfig } from 'prettier';
import { codeIn } from './steps/fatbin.js';
import { integrityOf } from './steps/pack.js';
import { root } from './steps/root.js';
import { main, run, StepError } from './steps/run.js';
import { readTarball } from './steps/tarball.js';

const SCOPE = '@node-llama-cpp';
/** The package of CUDA 12 has only its library, for use beside the package of CUDA 13. */
const BACKENDS = [
  { package: 'linux-x64-cuda', kind: 'cuda', cuda: 13, file: 'bins/linux-x64-cuda/libggml-cuda.so' },
  { package: 'linux-x64-cuda-ext', kind: 'cuda', cuda: 12, file: 'bins/linux-x64-cuda/fallback/libggml-cuda.so' },
  { package: 'linux-x64-vulkan', kind: 'vulkan', cuda: null, file: 'bins/linux-x64-vulkan/libggml-vulkan.so' },
];
/** First driver that compiles each version of PTX: that of the version of CUDA in which it was new. */
const COMPILING_DRIVER = { 8.4: 550, 9.1: 590 };
const TARGET = join(root, 'src', 'engine', 'gpu', 'packages.ts');

await main(async () => {
  const { packages: locked } = JSON.parse(await readFile(join(root, 'package-lock.json'), 'utf8'));
  const { version } = locked['node_modules/node-llama-cpp'];
  const folder = await mkdtemp(join(tmpdir(), 'svc-gpu-packages-'));
  try {
    const records = [];
    for (const { package: short, kind, cuda, file } of BACKENDS) {
      const name = `${SCOPE}/${short}`;
      const output = await run(`download ${name}`, 'npm', ['pack', `${name}@${version}`, '--silent'], { cwd: folder });
      const tarball = join(folder, output.trim().split('\n').at(-1));
      const integrity = await integrityOf(tarball);
      const expected = locked[`node_modules/${name}`]?.integrity;
      if (expected !== undefined && expected !== integrity) throw new StepError(`${name}: package-lock.json differs`);
      const bytes = await readFile(tarball);
      const library = (await readTarball(tarball)).get(file)?.bytes;
      if (library === undefined) throw new StepError(`${name}: ${file} is missing`);
      const digest = `sha256:${createHash('sha256').update(bytes).digest('hex')}`;
      const sizes = { size_bytes: bytes.length, library_bytes: library.length };
      const kernels = cuda === null ? null : kernelsOf(name, library);
      records.push({ name, version, platform: 'linux-x64', kind, cuda, file, kernels, integrity, digest, ...sizes });
    }
    const options = { ...(await resolveConfig(TARGET)), parser: 'typescript' };
    await writeFile(TARGET, await format(textOf(records), options));
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
});

function kernelsOf(name, library) {
  const { machine, ptx } = codeIn(library);
  const driver = COMPILING_DRIVER[ptx.version];
  if (machine.length === 0 || driver === undefined) {
    throw new StepError(`${name}: which driver compiles PTX ${ptx.version}? Add it to COMPILING_DRIVER`);
  }
  return { machine, compiled_from: ptx.capabilities[0], compiling_driver: driver };
}

function textOf(records) {
  return `/** Made by scripts/gpu-packages.js: the npm packages of GPU backends that fit this version of libllama. */

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
  /** \`process.platform\` and \`process.arch\`. */
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
  /** SHA-256 of the tarball: \`sha256:\` and 64 hexadecimal digits. */
  readonly digest: string;
  readonly size_bytes: number;
  /** Size of the backend. */
  readonly library_bytes: number;
}

export const BACKEND_PACKAGES: readonly BackendPackage[] = ${JSON.stringify(records)};
`;
}
