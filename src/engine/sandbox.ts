/**
 * The sandbox of an engine process: what it may still do once it meets a model's file, its template and requests, all
 * of which are foreign. The kernel's part is native/process/sandbox.h; which files are left is decided here.
 *
 * It is entered after the addon and its backends are loaded, because drivers of GPUs start programs and open sockets
 * while they look for devices, and before the first byte of a model is read.
 */
import { constants } from 'node:os';
import { basename, delimiter, dirname, join } from 'node:path';
import { getSystemErrorName } from 'node:util';
import { setForDrivers, variable } from '../config/environment.ts';
import { makeDirectorySync } from '../files/make-directory.ts';
import { PART, partsBeside } from '../models/part-names.ts';
import { loadProcessAddon, type SandboxReport } from '../process/addon.ts';
import { SvcError } from '../protocol/errors.ts';

/** What an engine process is for decides which files it may open. Absent: none of that kind. */
export interface EngineFiles {
  /** Models, each with all its parts. */
  readonly models?: readonly (string | undefined)[];
  /** The only folder that it may write to; made when it is missing. */
  readonly prefixFolder?: string | undefined;
  /** A file that it may write; made when it is missing. */
  readonly output?: string | undefined;
  /** Where svc.node and its libraries lie. */
  readonly addonFolder: string;
}

/** Standard streams, and the pipe to the daemon. */
const LAST_OWN_DESCRIPTOR = 3;

/** Shared libraries, which drivers open as late as they need them, and what tells where those are. */
const LIBRARIES = [
  '/usr /lib /lib32 /lib64 /opt/rocm /opt/amdgpu /opt/intel /opt/cuda /nix/store /gnu/store /run/opengl-driver',
  '/etc/ld.so.cache /etc/ld.so.conf /etc/ld.so.conf.d /etc/alternatives /etc/localtime',
].flatMap((line) => line.split(' '));
/** What Node, ggml and the C library look at of the machine; of processes only its own. */
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

/** First of all: no memory of this process goes to a core file, and of descriptors it keeps those it was meant to get. */
export function keepToOwnProcess(): void {
  const addon = loadProcessAddon();
  addon.forbidCoreDumps();
  addon.closeInheritedFiles(LAST_OWN_DESCRIPTOR);
}

/**
 * Has the drivers of GPUs keep their compiled shaders in a folder of svc's own, which the sandbox leaves to engines that
 * have one: without it each start compiles them anew. The user's other programs must not run what an engine has written.
 * REQUIRES: no backend is loaded yet.
 */
export function keepShaders(prefixFolder: string | undefined): void {
  if (prefixFolder === undefined || variable('GGML_BACKEND_PATH') === undefined) return;
  for (const name of SHADER_VARIABLES) setForDrivers(name, shaderFolder(prefixFolder));
}

/** Of Mesa and of NVIDIA. */
const SHADER_VARIABLES = ['MESA_SHADER_CACHE_DIR', '__GL_SHADER_DISK_CACHE_PATH'];

function shaderFolder(prefixFolder: string): string {
  return join(dirname(prefixFolder), 'shaders');
}

/** Throws ENGINE_UNAVAILABLE when process.node does not load. Parts that the kernel lacks are in the report. */
export function enterSandbox(files: EngineFiles): SandboxReport {
  const { prefixFolder, output } = files;
  const hasGpu = variable('GGML_BACKEND_PATH') !== undefined;
  const shaders = hasGpu && prefixFolder !== undefined ? shaderFolder(prefixFolder) : undefined;
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

/** When all files of the engine are open. */
export function leaveLastCapability(): void {
  loadProcessAddon().leaveLastCapability();
}

/** What is not in force, with the reason; empty where all is. On systems that have none of it, all of it. */
export function missingParts(report: SandboxReport): string[] {
  const { landlockVersion } = report;
  const parts: readonly (readonly [string, number])[] = [
    ['no new privileges', report.noNewPrivileges],
    ['no capabilities', report.capabilities],
    ['Landlock, which keeps it from files', report.landlock],
    ['seccomp, which keeps it from sockets, programs and processes', report.seccomp],
  ];
  return [
    ...parts.filter(([, error]) => error !== 0).map(([name, error]) => `${name} (${reasonOf(error)})`),
    ...LANDLOCK_LATER.filter(([version]) => report.landlock === 0 && landlockVersion < version).map(
      ([version, what]) => `${what} (Landlock ${String(version)}; this kernel has ${String(landlockVersion)})`,
    ),
  ];
}

/** What seccomp does not take away as well. */
const LANDLOCK_LATER: readonly (readonly [number, string])[] = [
  [3, 'truncating of files'],
  [5, 'control of devices'],
];

function reasonOf(error: number): string {
  const { EOPNOTSUPP, ENOTSUP } = constants.errno;
  if (error === EOPNOTSUPP || error === ENOTSUP) return 'this kernel has none';
  return getSystemErrorName(-error);
}

function makeFolder(folder: string): void {
  try {
    makeDirectorySync(folder);
  } catch {
    // Nothing is then kept in it.
  }
}

function partsOf(path: string | undefined): string[] {
  if (path === undefined) return [];
  const count = PART.exec(basename(path))?.[3];
  return count === undefined ? [path] : partsBeside(path, Number(count));
}

/** Beside svc.node, beside the backend of a GPU, and where the environment leads the dynamic linker. */
function ownLibraries(addonFolder: string): string[] {
  const gpuModule = variable('GGML_BACKEND_PATH');
  const linked = (variable('LD_LIBRARY_PATH') ?? '').split(delimiter).filter((folder) => folder !== '');
  return [addonFolder, ...(gpuModule === undefined ? [] : [dirname(gpuModule), ...GPU_SETTINGS]), ...linked];
}

/** Only for an engine that has a backend of a GPU. */
function gpuDevices(): string[] {
  if (variable('GGML_BACKEND_PATH') === undefined) return [];
  const cards = Array.from({ length: MOST_NVIDIA_DEVICES }, (_, card) => `/dev/nvidia${String(card)}`);
  return [...GPU_DEVICES, ...cards];
}
