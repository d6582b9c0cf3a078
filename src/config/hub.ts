/** Settings of the model hub from the environment, under the hub's own variable names. */
import { variable } from '../process/environment.ts';
import type { HubSettings } from '../protocol/routes.ts';

export function hubEnvironment(): HubSettings {
  const offline = variable('HF_HUB_OFFLINE') ?? '0';
  return {
    endpoint: variable('HF_ENDPOINT') ?? 'https://huggingface.co',
    token: variable('HF_TOKEN')?.trim() ?? null,
    is_offline: !['0', 'false', 'no', 'off'].includes(offline.toLowerCase()),
  };
}
