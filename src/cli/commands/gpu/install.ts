/** `svc gpu install`. Ctrl-C keeps the partial download and nothing else. */
import { NO_GPU_HINT, chooseBackend, nameOfKind } from '../../../engine/gpu/choose.ts';
import { backendsFolder, installedBackend, type ProofRecord } from '../../../engine/gpu/installed.ts';
import type { BackendPackage } from '../../../engine/gpu/packages.ts';
import { surveyGpu } from '../../../engine/gpu/survey.ts';
import { installBackend, type InstallEvent } from '../../../gpu/install.ts';
import { npmRegistry } from '../../../gpu/npm-config.ts';
import { resolvePaths } from '../../../home/paths.ts';
import { builtinModelPath } from '../../../models/store/builtin.ts';
import { SvcError } from '../../../protocol/errors.ts';
import { jsonLinesFlag, type Run, type Spec } from '../../spec.ts';
import { cancellable } from '../../machine/cancellable.ts';
import { ByteProgress } from '../../terminal/byte-progress.ts';
import { bytes } from '../../terminal/format.ts';
import { print, printJsonLine, say, sayProgress } from '../../terminal/output.ts';

export const spec = {
  summary: 'Install the backend that fits the GPU, and verify it',
  detail: [
    'Without BACKEND it takes CUDA if the NVIDIA driver and the libraries of CUDA are there, otherwise Vulkan. The package comes from the npm registry of your npm config and must have the digest that svc was built with. A child process then computes with the built-in model: its tokens must be those of the processor. If anything fails, the backend is removed again. Restart the daemon afterwards.',
  ],
  arguments: [{ name: 'backend', required: false, choices: ['cuda', 'vulkan'] }],
  flags: { json: jsonLinesFlag },
  examples: [
    'svc gpu install',
    'svc gpu install vulkan',
    'NPM_CONFIG_REGISTRY=https://npm.example.com svc gpu install',
  ],
} as const satisfies Spec;

export const run: Run<typeof spec> = async ({ json }, { backend: wanted }) => {
  const paths = resolvePaths();
  const { package: backend, reason, hint } = chooseBackend(surveyGpu(), { wanted });
  if (backend === null) {
    throw new SvcError('ENGINE_UNAVAILABLE', `no GPU backend can be used: ${reason}`, {
      hint: hint ?? NO_GPU_HINT,
    });
  }
  const present = installedBackend(backendsFolder(paths));
  if (present?.package === backend && present.proof !== null) {
    report(json, backend, present.proof, 'is installed already');
    return;
  }
  if (!json) say(`${nameOfKind(backend.kind)}: ${reason}`);
  const registry = await npmRegistry(backend.name.split('/')[0] as string);
  const modelPath = builtinModelPath();
  const onEvent = json ? printJsonLine : shower();
  const proof = await cancellable(
    new SvcError('CANCELLED', 'cancelled; only the partial download is kept', { hint: 'resume: svc gpu install' }),
    (signal) => installBackend({ backend, registry, paths, modelPath, signal, onEvent }),
  );
  report(json, backend, proof, 'is installed');
};

function report(json: boolean, { kind, name, version }: BackendPackage, proof: ProofRecord, what: string): void {
  if (json) {
    printJsonLine({ type: 'installed', backend: kind, package: `${name}@${version}`, ...proof });
    return;
  }
  const speed = `${proof.tokens_per_second.toFixed(0)} tokens/s with the built-in model`;
  print(`the ${nameOfKind(kind)} backend ${what}: ${proof.device}, ${speed}, the same tokens as on the processor`);
  say('a running daemon uses it after a restart: svc restart');
}

function shower(): (event: InstallEvent) => void {
  const progress = new ByteProgress('downloading');
  return (event) => {
    if (event.type === 'downloading') say(`downloading ${event.package} (${bytes(event.total_bytes)})`);
    else if (event.type === 'progress') progress.show(event);
    else if (event.type === 'waiting') say(`${event.reason}; retrying in ${(event.pause_ms / 1000).toFixed(1)} s`);
    else {
      sayProgress('');
      say('computing with the backend in a child process');
    }
  };
}
