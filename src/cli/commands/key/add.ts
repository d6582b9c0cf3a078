import { addKey } from '../../../home/key-file.ts';
import { resolvePaths } from '../../../home/paths.ts';
import { jsonFlag, type Run, type Spec } from '../../spec.ts';
import { print, printJson, say } from '../../terminal/output.ts';

export const spec = {
  summary: 'Create an API key',
  detail: [
    'The key is printed only once; svc keeps only its digest. A running daemon accepts it at once.',
    'As soon as one key exists, every client that connects over TCP needs one. Commands that use the control socket do not.',
  ],
  arguments: [{ name: 'name', required: true }],
  flags: {
    scope: {
      kind: 'choice',
      choices: ['local', 'inference', 'admin'],
      default: 'inference',
      summary: 'local: models on this machine only; inference: also providers; admin: everything',
    },
    json: jsonFlag,
  },
  examples: ['svc key add laptop', 'svc key add guest --scope local', 'svc key add --scope admin deploy --json'],
} as const satisfies Spec;

export const run: Run<typeof spec> = async ({ scope, json }, { name }) => {
  const { entry, key } = await addKey(resolvePaths().keyFile, name, scope);
  if (json) {
    printJson({ name: entry.name, scope: entry.scope, created_at: entry.created_at, key });
    return;
  }
  say(`created key ${entry.name}, scope ${entry.scope}; it is shown only once`);
  print(key);
};
