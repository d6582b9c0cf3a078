/** What the engines together mean for the condition `engine`. */
import type { CheckStatus } from '../../protocol/records.ts';
import type { Supervisor } from './supervisor.ts';

export interface EngineStatus {
  readonly status: CheckStatus;
  readonly reason: string;
  /** RFC 3339, when an engine here produced a token for the first time. null: none has. */
  readonly sinceToken: string | null;
}

/**
 * `fail`: no engine has shown that it works, or the one that matters does not and no other does.
 * `warn`: one that matters is down or on its way back, and another is loaded; or any of them is silent. An engine matters when
 * it is kept (the default model, or one loaded by name); the others are started when somebody asks.
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
    const reason = loading === undefined ? 'no engine has been started' : `${loading.model.id} is being loaded`;
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
    return { status, reason: `the engine of ${returning.model.id} is being started again`, sinceToken };
  }
  return { status: 'ok', reason: `tokens since ${sinceToken}`, sinceToken };
}
