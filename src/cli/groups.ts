/** Titles of the command groups, for example for `svc model --help`. */
export const GROUPS = {
  model: 'Manage the models on this machine',
  history: 'Read and delete the conversations that are kept',
  gpu: 'Use a GPU: install, list or remove its backend',
  key: 'Manage API keys for clients that connect over TCP',
  provider: 'Manage cloud providers and your own servers',
  config: 'Read and change settings',
  service: 'Run the daemon as a service of this user',
} as const satisfies Record<string, string>;

export type GroupName = keyof typeof GROUPS;

export function isGroup(name: string): name is GroupName {
  return Object.hasOwn(GROUPS, name);
}
