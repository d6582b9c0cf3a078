/** What the records say of an engine. */
import type { CacheType } from '../../engine/addon.ts';
import type { LoadedModelHealth, ModelPlacement, StepsHealth } from '../../protocol/records.ts';
import type { Supervisor } from './supervisor.ts';

/** The engine's name of the processor. */
const HOST = 'CPU';

/** null: it has no process. */
export function loadedHealth(
  engine: Supervisor,
  { waiting, active }: Pick<LoadedModelHealth, 'waiting' | 'active'>,
): LoadedModelHealth | null {
  const { state, pid, child, info } = engine;
  if (state === 'idle' || state === 'closed') return null;
  const stats = child?.stats ?? null;
  // An embedding engine keeps no KV cache between batches.
  const cached = info?.makes_embeddings === true ? null : stats;
  return {
    id: engine.model.id,
    state,
    pid,
    rss_bytes: child?.rssBytes ?? null,
    context_length: info?.context_length ?? null,
    cache_type: cacheTypeOf(engine),
    active,
    waiting,
    kv_cells_used: cached?.kv_cells_used ?? null,
    kv_cells_cached: cached?.kv_cells_cached ?? null,
    kv_cells_total: cached?.kv_cells_total ?? null,
    kv_tokens_swapped: cached?.kv_tokens_swapped ?? null,
    // 0 means that the engine is idle: there is no speed to report.
    tokens_per_second: stats === null || stats.tokens_per_second === 0 ? null : stats.tokens_per_second,
    steps: cached === null ? null : rounded(cached.steps),
  };
}

/** null: not loaded, or an embedding engine, which keeps no KV cache between batches. */
export function cacheTypeOf({ info, plan }: Pick<Supervisor, 'info' | 'plan'>): CacheType | null {
  return info === null || info.makes_embeddings ? null : (plan?.options.cache_type ?? 'f16');
}

/** null: not loaded. */
export function placementOf({ info, plan }: Pick<Supervisor, 'info' | 'plan'>): ModelPlacement | null {
  if (info === null || plan === null) return null;
  const { options, bytes } = plan;
  const onDevices = [...bytes.devices].map(([name, memory_bytes]) => ({ name, memory_bytes }));
  // One more for the output, as libllama counts.
  const layers = info.layers + 1;
  const gpu_layers = onDevices.length === 0 ? 0 : Math.min(options.gpu_layers ?? layers, layers);
  return {
    layers,
    gpu_layers,
    cpu_experts: gpu_layers === 0 ? 0 : Math.min(options.cpu_experts ?? 0, info.layers),
    devices: [{ name: HOST, memory_bytes: bytes.host }, ...onDevices],
  };
}

/** The record has one decimal. */
function rounded(steps: StepsHealth): StepsHealth {
  const round = (ms: number): number => Math.round(ms * 10) / 10;
  return { ...steps, predicted_ms: round(steps.predicted_ms), spent_ms: round(steps.spent_ms) };
}
