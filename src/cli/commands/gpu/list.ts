import { chooseBackend, nameOfKind, type BackendChoice } from '../../../engine/gpu/choose.ts';
import { backendsFolder, installedBackend, type InstalledBackend } from '../../../engine/gpu/installed.ts';
import { surveyGpu, type GpuSurvey } from '../../../engine/gpu/survey.ts';
import { resolvePaths } from '../../../home/paths.ts';
import { jsonFlag, type Run, type Spec } from '../../spec.ts';
import { text } from '../../terminal/format.ts';
import { facts } from '../../terminal/layout.ts';
import { out } from '../../terminal/output.ts';
import { printResult } from '../../terminal/result.ts';

export const spec = {
  summary: 'List the GPUs, their drivers, and the backend that fits',
  detail: ['Loads no driver. `svc doctor` computes on the GPU.'],
  flags: { json: jsonFlag },
  examples: ['svc gpu list', 'svc gpu list --json'],
} as const satisfies Spec;

export const run: Run<typeof spec> = ({ json }) => {
  const installed = installedBackend(backendsFolder(resolvePaths()));
  const survey = surveyGpu();
  const choice = chooseBackend(survey);
  const record = {
    gpus: survey.gpus.map(({ name, vendor, driver, driverVersion }) => ({
      ...{ name, vendor, driver },
      driver_version: driverVersion,
    })),
    choice: {
      backend: choice.package?.kind ?? null,
      package: nameOf(choice.package),
      reason: choice.reason,
      hint: choice.hint,
    },
    installed: installed === null ? null : recordOf(installed),
  };
  printResult(json, record, describe(survey, choice, installed));
};

function recordOf({ package: { kind, ...rest }, module, proof }: InstalledBackend): object {
  return { backend: kind, package: nameOf({ kind, ...rest }), path: module, ...(proof ?? {}) };
}

function nameOf(found: BackendChoice['package']): string | null {
  return found === null ? null : `${found.name}@${found.version}`;
}

function describe({ gpus }: GpuSurvey, choice: BackendChoice, installed: InstalledBackend | null): string {
  const cards = gpus.map(({ name, driver, driverVersion }) =>
    `${name}, driver ${driver ?? 'none'} ${driverVersion ?? ''}`.trimEnd(),
  );
  const fits = choice.package === null ? 'none' : nameOfKind(choice.package.kind);
  const proof = installed?.proof ?? null;
  const speed = proof === null ? '' : `, ${proof.tokens_per_second.toFixed(0)} tokens/s on ${proof.device}`;
  const rows = [
    ...(cards.length === 0 ? ['none'] : cards).map((card, index) => [index === 0 ? 'gpu' : '', card] as const),
    ['fits', `${fits}: ${choice.reason}`],
    ...(choice.hint === null ? [] : [['hint', choice.hint] as const]),
    ['installed', installed === null ? text(null) : `${nameOfKind(installed.package.kind)}${speed}`],
    ...(installed === null && choice.package !== null ? [['install', 'svc gpu install'] as const] : []),
  ] as const;
  return facts(rows, out.tableColumns);
}
