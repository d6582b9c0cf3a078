import { rmSync } from 'node:fs';
import { SvcError } from '../../../protocol/errors.ts';
import { serviceManager } from '../../../service/manager.ts';
import { jsonFlag, type Run, type Spec } from '../../spec.ts';
import { printResult } from '../../terminal/result.ts';
import { textOf } from './definition.ts';

export const spec = {
  summary: 'Stop the service and remove it',
  detail: ['Models, configuration and log are kept. Succeeds if no service is installed.'],
  flags: { json: jsonFlag },
  examples: ['svc service uninstall'],
} as const satisfies Spec;

export const run: Run<typeof spec> = async ({ json }) => {
  const manager = serviceManager();
  const present = manager.paths.filter((path) => textOf(path) !== null);
  const reachable = (await manager.state()) !== null;
  if (present.length > 0 && reachable) await manager.disable();
  for (const path of present) {
    try {
      rmSync(path);
    } catch (error) {
      throw new SvcError('CANNOT_WRITE', `cannot remove ${path}: ${(error as Error).message}`, { cause: error });
    }
  }
  if (present.length > 0 && reachable) await manager.forget();
  const text = present.length === 0 ? 'svc is not installed as a service' : 'the service was removed';
  printResult(json, { manager: manager.name, removed: present }, text);
};
