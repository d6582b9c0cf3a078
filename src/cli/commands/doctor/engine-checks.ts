/** Checks of the addon, the devices and the processor, as an engine process sees them. */
import { examineGpu, type GpuExamination } from '../../../engine/gpu.ts';
import { proveGpu } from '../../../engine/gpu-proof.ts';
import { probeEngine, type EngineProbe } from '../../../engine/probe.ts';
import { builtinModelPath } from '../../../models/store/builtin.ts';
import { shaderFolder } from '../../../models/store/prefixes.ts';
import { SvcError } from '../../../protocol/errors.ts';
import type { DoctorCheck } from '../../../protocol/doctor.ts';
import { bytes } from '../../terminal/format.ts';
import { check, skipped } from './check.ts';

export interface CheckedEngine {
  readonly checks: readonly DoctorCheck[];
  /** True if an engine can be started on this machine. */
  readonly works: boolean;
  readonly devices: EngineProbe['devices'];
}

/** `cacheDir`: has the GPU driver's shader cache; null: it gets none. */
export async function checkEngine(cacheDir: string | null): Promise<CheckedEngine> {
  const gpu = await examineGpu({ measure: true });
  // A crash of the GPU's driver must not fail the other checks: probe again without the GPU.
  const probe = gpu.probe === null || gpu.probe.error !== null ? await probeEngine({ measure: true }) : gpu.probe;
  return {
    checks: [
      checkAddon(probe),
      await checkGpu(gpu, probe, cacheDir),
      ...probe.devices.map(checkDevice),
      checkProcessor(probe),
    ],
    works: probe.error === null,
    devices: probe.devices,
  };
}

function checkAddon({ addon, error }: EngineProbe): DoctorCheck {
  const path = addon?.path ?? null;
  if (error !== null)
    return check('addon', 'fail', path, { detail: error.message, hint: error.hint ?? 'reinstall svc-runtime' });
  if (addon === null) return check('addon', 'fail', null, { hint: 'reinstall svc-runtime' });
  const detail = `loads in a process of its own; for ${addon.builtFor}, llama.cpp ${addon.llamaCpp} (${addon.llama}), Node-API ${process.versions['napi'] ?? 'unknown'}`;
  return check('addon', 'ok', path, { detail });
}

/** The built-in model computes on the GPU; its tokens must be those of the processor. */
async function checkGpu(gpu: GpuExamination, probe: EngineProbe, cacheDir: string | null): Promise<DoctorCheck> {
  const { gpus, module, trouble } = gpu;
  if (probe.error !== null) return skipped('gpu', 'the addon cannot be loaded');
  const present = gpus.map(cardOf).join('; ') || null;
  if (trouble !== null) {
    return check('gpu', 'warn', present, { detail: `not used: ${trouble.reason}`, hint: trouble.hint });
  }
  if (module === undefined) return skipped('gpu', 'no GPU: models run on the processor');
  const device = probe.devices.find(({ type }) => type !== 'cpu');
  const card = present ?? `card ${device?.description ?? 'unknown'}`;
  const value = `${card}, backend ${device?.backend ?? 'unknown'}`;
  try {
    const modelPath = builtinModelPath();
    const shaders = cacheDir === null ? undefined : shaderFolder(cacheDir, modelPath);
    const { tokensPerSecond } = await proveGpu({ module, modelPath, shaderFolder: shaders });
    const detail = `used through ${module}; the built-in model gives the same tokens as on the processor`;
    return check('gpu', 'ok', `${value}, ${tokensPerSecond.toFixed(tokensPerSecond < 10 ? 1 : 0)} tokens/s`, {
      detail,
    });
  } catch (error) {
    const { message, hint = 'update the GPU driver' } = SvcError.from(error);
    return check('gpu', 'fail', value, {
      detail: `the built-in model fails on it: ${message}`,
      hint: `${hint}; or run models on the processor: svc gpu rm`,
    });
  }
}

function cardOf({ name, driver, driverVersion }: GpuExamination['gpus'][number]): string {
  const version = driverVersion === null ? '' : ` ${driverVersion}`;
  return `card ${name}, driver ${driver === null ? 'none' : `${driver}${version}`}`;
}

function checkDevice(device: EngineProbe['devices'][number]): DoctorCheck {
  const { memory_total_bytes: total, memory_free_bytes: free } = device;
  const of = free === null ? '' : `${bytes(free)} free of `;
  const memory = total === null ? '' : `, ${of}${bytes(total)} of memory`;
  const detail = `${device.description} (${device.backend}${memory})`;
  const name = `device ${device.name}` as const;
  if (device.gflops !== null) return check(name, 'ok', `${device.gflops.toFixed(1)} GFLOP/s`, { detail });
  return check(name, 'fail', null, {
    detail: `${detail}: ${device.error ?? 'no kernel was run on it'}`,
    hint: device.type === 'cpu' ? 'reinstall svc-runtime' : 'update its driver',
  });
}

export function checkProcessor({
  cpuFeatures,
  devices,
  log,
}: Pick<EngineProbe, 'cpuFeatures' | 'devices' | 'log'>): DoctorCheck {
  if (cpuFeatures === null) return skipped('cpu_features', 'the addon cannot be loaded');
  const variant = kernelVariant(log);
  const value = variant === null ? 'kernels built into the addon' : `kernels for ${variant}`;
  const features = presentFeatures(cpuFeatures);
  const hasGpu = devices.some(({ type }) => type === 'gpu' || type === 'igpu');
  const unless =
    hasGpu && features.includes('SVC_') ? '; SVC_… kernels only for models that have no layer on a GPU' : '';
  return check('cpu_features', 'ok', value, { detail: features + unless || null });
}

/** Reads ggml's log line `loaded CPU backend from …/libggml-cpu-zen4.so`. null: the CPU backend is linked in. */
function kernelVariant(log: readonly string[]): string | null {
  return log.flatMap((line) => /ggml-cpu-(\w+)\.\w+$/.exec(line)?.[1] ?? [])[0] ?? null;
}

/** Reads ggml's list `CPU : SSE3 = 1 | AVX = 0 | …`. */
function presentFeatures(features: string): string {
  return [...features.matchAll(/\b(\w+) = 1/g)].map(([, name]) => name).join(' ');
}
