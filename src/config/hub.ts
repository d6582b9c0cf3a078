/** Settings of the model hub from the environment, under the hub's own variable names. */
import { variable } from '../process/environment.ts';

export interface HubEnvironment {
  readonly endpoint: string;
  readonly token: string | null;
  readonly isOffline: boolean;
}

export function hubEnvironment(): HubEnvironment {
  const offline = variable('HF_HUB_OFFLINE') ?? '0';
  return {
    endpoint: variable('HF_ENDPOINT') ?? 'https://huggingface.co',
    token: variable('HF_TOKEN')?.trim() ?? null,
    isOffline: !['0', 'false', 'no', 'off'].includes(offline.toLowerCase()),
  };
}
