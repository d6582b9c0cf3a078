import { ERRORS } from '../../../protocol/errors.ts';
import type { ProviderTestStep } from '../../../protocol/routes.ts';
import { testProvider } from '../../../providers/provider-test.ts';
import { ControlClient } from '../../../client/control-client.ts';
import { resolvePaths } from '../../../home/paths.ts';
import { jsonFlag, providerArgument, type Run, type Spec } from '../../spec.ts';
import { fromDaemon } from '../../machine/models.ts';
import { exit, out, printJson, sayHint } from '../../terminal/output.ts';
import { printText } from '../../terminal/result.ts';
import { connectHere, findProvider, keyHint, providersHere } from '../../machine/providers.ts';

export const spec = {
  summary: 'Test a provider: its key, its address, the connection and a short answer',
  detail: ["Runs in the daemon if one is running, with the daemon's environment. The answer costs some tokens."],
  arguments: [providerArgument],
  flags: { json: jsonFlag },
  examples: ['svc provider test openai', 'svc provider test openai --json'],
} as const satisfies Spec;

export const run: Run<typeof spec> = async ({ json }, { provider: name }) => {
  const controller = new AbortController();
  const onInterrupt = (): void => {
    exit(130);
  };
  process.once('SIGINT', onInterrupt);
  const steps: ProviderTestStep[] = [];
  try {
    for await (const step of stepsFor(name, controller.signal)) {
      steps.push(step);
      if (!json) printText(describe(step));
    }
  } finally {
    process.off('SIGINT', onInterrupt);
  }
  const failure = steps.find(({ status }) => status === 'fail');
  if (json) printJson({ provider: name, ok: failure === undefined, steps });
  if (failure === undefined) return;
  if (!json && failure.step === 'key') sayHint(keyHint(providerRecord(name)));
  return failure.code === 'PROVIDER_AUTH' ? ERRORS.PROVIDER_AUTH.exit : ERRORS.PROVIDER_FAILED.exit;
};

async function* stepsFor(name: string, signal: AbortSignal): AsyncGenerator<ProviderTestStep, void> {
  const provider = findProvider(name, providersHere());
  // If a daemon is running, its keys and its network count.
  if ((await fromDaemon((client) => client.status())) !== undefined) {
    yield* new ControlClient(resolvePaths().socketPath).testProvider(name, signal);
    return;
  }
  const backend = await connectHere(provider);
  try {
    yield* testProvider(provider, backend, signal);
  } finally {
    await backend.close();
  }
}

function providerRecord(name: string): Parameters<typeof keyHint>[0] {
  const provider = findProvider(name, providersHere());
  return { name, credential: provider.credential() };
}

function describe({ step, status, endpoint, detail, latency_ms }: ProviderTestStep): string {
  const mark = { ok: out.green, fail: out.red, skip: out.dim }[status](status.padEnd(4));
  const where = endpoint === null ? '' : `${endpoint}: `;
  return `${mark}  ${step.padEnd(8)}${where}${detail}${latency_ms === null ? '' : `, ${String(latency_ms)} ms`}`;
}
