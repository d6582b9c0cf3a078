import { readGgufHeader } from '../../../models/gguf/gguf.ts';
import { recommendedSampling } from '../../../models/gguf/recommended-sampling.ts';
import { toModelfile } from '../../../models/modelfile/modelfile.ts';
import { SvcError } from '../../../protocol/errors.ts';
import type { Sampling } from '../../../protocol/generate.ts';
import type { ModelMemory, ModelPlacement, ModelRecord } from '../../../protocol/records.ts';
import { namingPull } from '../../asking/offer-pull.ts';
import { jsonFlag, modelArgument, type Run, type Spec } from '../../spec.ts';
import { bytes, count, short, text } from '../../terminal/format.ts';
import { facts } from '../../terminal/layout.ts';
import { findModel, named, openStore } from '../../machine/models.ts';
import { out, say } from '../../terminal/output.ts';
import { printResult, printValue } from '../../terminal/result.ts';
import { shown } from '../config/value.ts';
import { memoryOf, memoryTable } from './memory.ts';

export const spec = {
  summary: 'Show one model and the memory that it needs',
  detail: ["The memory is estimated without loading the model, at the daemon's context length and at several others."],
  arguments: [modelArgument],
  flags: {
    modelfile: { kind: 'switch', summary: "print the model's settings as a Modelfile of Ollama" },
    json: jsonFlag,
  },
  examples: ['svc model show builtin', 'svc model show builtin --json'],
} as const satisfies Spec;

export const run: Run<typeof spec> = async ({ modelfile, json }, { model }) => {
  const record = await namingPull(model, () => findModel(model));
  if (modelfile) {
    const text = toModelfile(record.from ?? record.id, record.settings ?? {}, record.adapters);
    printValue(json, { modelfile: text }, text);
    return;
  }
  // A name of the config whose model is missing: there is no file to describe.
  if (record.path === '') await named(openStore()).find(record.id);
  let memory: readonly ModelMemory[] | null = null;
  try {
    memory = await memoryOf(record);
  } catch (error) {
    say(`the memory of ${record.id} cannot be estimated: ${SvcError.from(error).message}`);
  }
  const file_sampling = await readGgufHeader(record.path).then(
    ({ metadata }) => recommendedSampling(metadata),
    () => ({}),
  );
  const text = [
    describe(record, file_sampling),
    ...(memory === null ? [] : ['', 'Estimated memory:', memoryTable(memory)]),
  ].join('\n');
  printResult(json, { ...record, file_sampling, memory }, text);
};

function describe(model: ModelRecord, fileSampling: Partial<Sampling>): string {
  const { loaded } = model;
  const rows: [string, string][] = [
    ['id', model.default ? `${model.id} (default)` : model.id],
    ['aliases', model.aliases.join(', ') || '-'],
    ...(model.from === undefined ? [] : [['from', model.from] satisfies [string, string]]),
    ['source', model.source],
    ['path', model.path],
    ['digest', text(model.digest)],
    ['size', bytes(model.size_bytes)],
    ['architecture', text(model.architecture)],
    ['parameters', short(model.parameters)],
    ['quantization', text(model.quantization)],
    ['context', count(model.context_length)],
    ['capabilities', capabilitiesOf(model)],
    ...(model.adapters ?? []).map(({ id, size_bytes, error }): [string, string] => [
      'adapter',
      `${id} (${bytes(size_bytes)}${error === undefined ? '' : `, cannot be used: it ${error}`})`,
    ]),
    ['license', text(model.license)],
    ['modified', model.modified_at],
    ['state', model.state],
    ...Object.entries(fileSampling)
      .filter(([name]) => !Object.hasOwn(model.settings?.sampling ?? {}, name))
      .map(([name, value]): [string, string] => [name, `${shown(value)} (recommended by its file)`]),
    ...Object.entries(model.settings ?? {}).flatMap(([name, value]) => settingRows(name, value)),
  ];
  if (loaded !== null) {
    rows.push(
      ['pid', String(loaded.pid)],
      ['device', loaded.device],
      ['loaded context', `${count(loaded.context_length)}${loaded.cache_type === 'q8_0' ? ' (q8_0 cache)' : ''}`],
      ...(loaded.placement === null ? [] : [['placement', placementText(loaded.placement)] satisfies [string, string]]),
      ['memory', `${bytes(loaded.memory_bytes)} of weights, cache and buffers; svc ps shows all of its process`],
    );
  }
  return facts(rows, out.tableColumns);
}

function placementText({ layers, gpu_layers, cpu_experts, devices }: ModelPlacement): string {
  const parts = [`${count(gpu_layers)} of ${count(layers)} layers on GPUs`];
  if (cpu_experts > 0) parts.push(`the experts of ${count(cpu_experts)} layers in memory`);
  return `${parts.join(', ')}: ${devices.map(({ name, memory_bytes }) => `${name} ${bytes(memory_bytes)}`).join(', ')}`;
}

/** Rows of one setting of the config; of `sampling` one for each sampler. */
function settingRows(name: string, value: unknown): [string, string][] {
  if (name === 'sampling') return Object.entries(value as object).flatMap(([each, inner]) => settingRows(each, inner));
  return [[name, shown(value)]];
}

function capabilitiesOf({ capabilities, capabilities_tried }: ModelRecord): string {
  const list = capabilities.join(', ') || '-';
  return capabilities_tried ? list : `${list} (as its file says; tools and thinking are tried at the first load)`;
}
