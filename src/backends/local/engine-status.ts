/** Derives the condition `engine` from all engines. */
import type { CheckStatus } from '../../protocol/records.ts';
import type { Supervisor } from './supervisor.ts';

export interface EngineStatus {
  readonly status: CheckStatus;
  readonly reason: string;
  /** RFC 3339: when an engine was first loaded, which includes generating a token. null: never. */
  readonly sinceToken: string | null;
}

/**
 * `fail`: no engine has worked yet, or a kept engine is down and no other is loaded.
 * `warn`: a kept engine is down or restarting while another is loaded, or any engine is silent.
 * Kept engines are those of the default model and of models loaded by name; the others start on request.
 */
export function engineStatus(engines: readonly Supervisor[], sinceToken: string | null): EngineStatus {
  const failed = engines.find(
    ({ kept, failure }) => failure !== null && (kept || failure.code === 'ENGINE_UNAVAILABLE'),
  );
  if (failed?.failure) {
    const status = engines.some(({ state }) => state === 'loaded') ? 'warn' : 'fail';
    return { status, reason: failed.failure.message, sinceToken };
  }
  const loading = engines.find(({ state }) => state === 'loading');
  if (sinceToken === null) {
    const reason = loading === undefined ? 'no engine has been started' : `${loading.model.id} is loading`;
    return { status: 'fail', reason, sinceToken };
  }
  const silent = engines.find(({ child }) => child?.isSilent === true);
  if (silent !== undefined) {
    return {
      status: 'warn',
      reason: `the engine of ${silent.model.id} has sent no heartbeat for over 10 s`,
      sinceToken,
    };
  }
  const returning = engines.find(({ kept, state, failures }) => kept && state === 'loading' && failures > 0);
  if (returning !== undefined) {
    const status = engines.some(({ state }) => state === 'loaded') ? 'warn' : 'fail';
    return { status, reason: `the engine of ${returning.model.id} is restarting`, sinceToken };
  }
  return { status: 'ok', reason: `tokens since ${sinceToken}`, sinceToken };
}
