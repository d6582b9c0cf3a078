import { serviceManager } from '../../../service/manager.ts';
import { removeService } from '../../machine/service.ts';
import { jsonFlag, type Run, type Spec } from '../../spec.ts';
import { printResult } from '../../terminal/result.ts';

export const spec = {
  summary: 'Stop the service and remove it',
  detail: ['Models, configuration and log are kept. Succeeds if no service is installed.'],
  flags: { json: jsonFlag },
  examples: ['svc service uninstall'],
} as const satisfies Spec;

export const run: Run<typeof spec> = async ({ json }) => {
  const manager = serviceManager();
  const removed = await removeService(manager);
  const text = removed.length === 0 ? 'svc is not installed as a service' : 'the service was removed';
  printResult(json, { manager: manager.name, removed }, text);
};
