import { jsonFlag, providerArgument, type Run, type Spec } from '../../spec.ts';
import { fromDaemon } from '../../machine/models.ts';
import { print, printJson } from '../../terminal/output.ts';
import { connectHere, findProvider, providersHere } from '../../machine/providers.ts';

export const spec = {
  summary: 'List the models that a provider offers now',
  arguments: [providerArgument],
  flags: { json: jsonFlag },
  examples: ['svc provider models openai', 'svc provider models ollama --json'],
} as const satisfies Spec;

export const run: Run<typeof spec> = async ({ json }, { provider: name }) => {
  const models = name === 'local' ? await localModels() : await modelsOf(name);
  if (json) printJson({ provider: name, models });
  else for (const model of models) print(model);
};

async function modelsOf(name: string): Promise<readonly string[]> {
  const provider = findProvider(name, providersHere());
  const told = await fromDaemon((client) => client.providerModels(name));
  if (told !== undefined) return told;
  const backend = await connectHere(provider);
  try {
    return await backend.modelNames(new AbortController().signal);
  } finally {
    await backend.close();
  }
}

async function localModels(): Promise<readonly string[]> {
  const { listModels } = await import('../../machine/models.ts');
  return (await listModels()).map(({ id }) => id);
}
