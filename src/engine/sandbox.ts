/**
 * The sandbox of an engine process, entered before it reads untrusted data: a model file, its chat template, requests.
 * native/process/sandbox.h implements it; the files that stay accessible are chosen here.
 *
 * It is entered after the addon and its backends are loaded, because GPU drivers start programs and open sockets while
 * they search for devices.
 */
import { constants } from 'node:os';
import { basename, delimiter, dirname } from 'node:path';
import { getSystemErrorName } from 'node:util';
import { setForDrivers, variable } from '../process/environment.ts';
import { makeDirectorySync } from '../files/make-directory.ts';
import { PART, partsBeside } from '../models/gguf/part-names.ts';
import { loadProcessAddon, type SandboxReport } from '../process/addon.ts';
import { SvcError } from '../protocol/errors.ts';

/** Files that an engine process may open, by its task. Absent: none of that kind. */
export interface EngineFiles {
  /** Model files, each with all its parts. */
  readonly models?: readonly (string | undefined)[];
  /** Writable directory; created if missing. */
  readonly prefixFolder?: string | undefined;
  /** Writable directory, if there is a GPU; created if missing. */
  readonly shaderFolder?: string | undefined;
  /** Writable file; must exist. */
  readonly output?: string | undefined;
  /** Directory of svc.node and its libraries. */
  readonly addonFolder: string;
}

/** Standard streams, and the pipe to the daemon. */
const LAST_OWN_DESCRIPTOR = 3;

/** Shared libraries, which drivers may open late, and the linker's configuration. */
const LIBRARIES = [
  '/usr /lib /lib32 /lib64 /opt/rocm /opt/amdgpu /opt/intel /opt/cuda /nix/store /gnu/store /run/opengl-driver',
  '/etc/ld.so.cache /etc/ld.so.conf /etc/ld.so.conf.d /etc/alternatives /etc/localtime',
].flatMap((line) => line.split(' '));
/** Files that Node, ggml and the C library read; in /proc only the process's own. */
const SYSTEM = [
  '/sys /proc/self /proc/meminfo /proc/cpuinfo /proc/stat /proc/version /proc/sys/vm /proc/sys/kernel',
  '/dev/zero /dev/random /dev/urandom',
].flatMap((line) => line.split(' '));
const GPU_SETTINGS = '/etc/vulkan /etc/glvnd /etc/OpenCL /etc/drirc /etc/nvidia /proc/driver /proc/devices'.split(' ');
const GPU_DEVICES = [
  '/dev/dri /dev/kfd /dev/dxg /dev/nvidiactl /dev/nvidia-uvm /dev/nvidia-uvm-tools /dev/nvidia-modeset',
  '/dev/nvidia-caps /dev/nvmap /dev/nvgpu /dev/nvhost-ctrl-gpu /dev/mali0 /dev/accel',
].flatMap((line) => line.split(' '));
const MOST_NVIDIA_DEVICES = 32;

/** Called first: forbids core dumps and closes inherited file descriptors. */
export function keepToOwnProcess(): void {
  const addon = loadProcessAddon();
  addon.forbidCoreDumps();
  addon.closeInheritedFiles(LAST_OWN_DESCRIPTOR);
}

/**
 * Makes GPU drivers cache compiled shaders in svc's own directory, which stays writable in the sandbox: otherwise every
 * start would recompile them. Not in the user's shader cache, and not in one directory for all models, because neither
 * other programs nor other engines must run what an engine has written. REQUIRES: no backend is loaded yet.
 */
export function keepShaders(folder: string | undefined): void {
  if (folder === undefined || variable('GGML_BACKEND_PATH') === undefined) return;
  for (const name of SHADER_VARIABLES) setForDrivers(name, folder);
}

/** For Mesa, and for NVIDIA's Vulkan and CUDA. */
const SHADER_VARIABLES = ['MESA_SHADER_CACHE_DIR', '__GL_SHADER_DISK_CACHE_PATH', 'CUDA_CACHE_PATH'];

/** Throws ENGINE_UNAVAILABLE if process.node cannot be loaded. The report lists what the kernel does not support. */
export function enterSandbox(files: EngineFiles): SandboxReport {
  const { prefixFolder, output } = files;
  const hasGpu = variable('GGML_BACKEND_PATH') !== undefined;
  const shaders = hasGpu ? files.shaderFolder : undefined;
  for (const folder of [prefixFolder, shaders]) if (folder !== undefined) makeFolder(folder);
  try {
    return loadProcessAddon().enterSandbox({
      read: [...LIBRARIES, ...SYSTEM, ...ownLibraries(files.addonFolder), ...(files.models ?? []).flatMap(partsOf)],
      write: [prefixFolder, shaders, output].filter((path) => path !== undefined),
      devices: ['/dev/null', ...gpuDevices()],
    });
  } catch (error) {
    throw new SvcError('ENGINE_UNAVAILABLE', `the sandbox cannot be entered: ${(error as Error).message}`, {
      hint: 'in a checkout run `npm run build`; otherwise reinstall svc-runtime',
      cause: error,
    });
  }
}

/** Call when all files of the engine are open. */
export function leaveLastCapability(): void {
  loadProcessAddon().leaveLastCapability();
}

/** Parts of the sandbox that are not active, with the reason. Empty: all are active. */
export function missingParts(report: SandboxReport): string[] {
  const { landlockVersion } = report;
  const parts: readonly (readonly [string, number])[] = [
    ['no new privileges', report.noNewPrivileges],
    ['no capabilities', report.capabilities],
    ['Landlock, which restricts file access', report.landlock],
    ['seccomp, which blocks sockets, programs and other processes', report.seccomp],
  ];
  return [
    ...parts.filter(([, error]) => error !== 0).map(([name, error]) => `${name} (${reasonOf(error)})`),
    ...LANDLOCK_LATER.filter(([version]) => report.landlock === 0 && landlockVersion < version).map(
      ([version, what]) => `${what} (Landlock ${String(version)}; this kernel has ${String(landlockVersion)})`,
    ),
  ];
}

/** Restrictions that need a later Landlock version and that seccomp does not cover. */
const LANDLOCK_LATER: readonly (readonly [number, string])[] = [
  [3, 'blocking truncation of files'],
  [5, 'blocking ioctl on devices'],
];

function reasonOf(error: number): string {
  const { EOPNOTSUPP, ENOTSUP } = constants.errno;
  if (error === EOPNOTSUPP || error === ENOTSUP) return 'not supported by this kernel';
  return getSystemErrorName(-error);
}

function makeFolder(folder: string): void {
  try {
    makeDirectorySync(folder);
  } catch {
    // Then nothing is cached there.
  }
}

function partsOf(path: string | undefined): string[] {
  if (path === undefined) return [];
  const count = PART.exec(basename(path))?.[3];
  return count === undefined ? [path] : partsBeside(path, Number(count));
}

/** Directories of svc.node, of the GPU backend and of LD_LIBRARY_PATH. */
function ownLibraries(addonFolder: string): string[] {
  const gpuModule = variable('GGML_BACKEND_PATH');
  const linked = (variable('LD_LIBRARY_PATH') ?? '').split(delimiter).filter((folder) => folder !== '');
  return [addonFolder, ...(gpuModule === undefined ? [] : [dirname(gpuModule), ...GPU_SETTINGS]), ...linked];
}

/** Empty without a GPU backend. */
function gpuDevices(): string[] {
  if (variable('GGML_BACKEND_PATH') === undefined) return [];
  const cards = Array.from({ length: MOST_NVIDIA_DEVICES }, (_, card) => `/dev/nvidia${String(card)}`);
  return [...GPU_DEVICES, ...cards];
}
