/** The addon, the devices and the processor, as an engine process finds them. */
import { probeEngine, type EngineProbe } from '../../engine/probe.ts';
import type { DoctorCheck } from '../../protocol/records.ts';
import { bytes } from '../format.ts';
import { check } from './check.ts';

export async function checkEngine(): Promise<DoctorCheck[]> {
  const { addon, devices, cpuFeatures, error } = await probeEngine({ measure: true });
  const checks: DoctorCheck[] = [];
  if (addon !== null) {
    const detail = `for ${addon.builtFor}, llama.cpp ${addon.llamaCpp} (${addon.llama}), Node-API ${process.versions['napi'] ?? 'unknown'}`;
    checks.push(check('addon', 'ok', addon.path, { detail }));
  }
  if (error !== null) {
    const name = addon === null ? 'addon' : 'engine';
    checks.push(check(name, 'fail', null, { detail: error.message, hint: error.hint ?? null }));
  }
  checks.push(...devices.map(checkDevice));
  if (cpuFeatures !== null) checks.push(check('cpu_features', 'ok', presentFeatures(cpuFeatures)));
  return checks;
}

/** ggml writes `CPU : SSE3 = 1 | AVX = 0 | …`. */
function presentFeatures(features: string): string {
  return [...features.matchAll(/(\w+) = 1/g)].map(([, name]) => name).join(' ');
}

function checkDevice(device: EngineProbe['devices'][number]): DoctorCheck {
  const memory = device.memoryTotalBytes === null ? '' : `, ${bytes(device.memoryTotalBytes)} of memory`;
  const detail = `${device.description} (${device.backend}${memory})`;
  const name = `device ${device.name}`;
  if (device.gflops !== null) return check(name, 'ok', `${device.gflops.toFixed(1)} GFLOP/s`, { detail });
  return check(name, 'fail', null, {
    detail: `${detail}: ${device.error ?? 'no kernel was run on it'}`,
    hint: device.type === 'cpu' ? 'reinstall svc-runtime' : 'update its driver',
  });
}
