/**
 * Makes synthetic models: real architectures, vocabularies and chat templates, random weights.
 *
 *   node --import tsx test/make-model/make-model.ts tests              build/models/tiny-*.gguf, projectors/*.gguf, adapters/*.gguf
 *   node --import tsx test/make-model/make-model.ts PRESET [--type F32|F16|Q8_0|Q4_0|Q4_K_M] [--out FILE]
 *   node --import tsx test/make-model/make-model.ts PROJECTOR              build/models/projectors/PROJECTOR.gguf
 *   node --import tsx test/make-model/make-model.ts ADAPTER                build/models/adapters/ADAPTER.gguf
 *
 * Q4_K_M is a mixture of types chosen by llama.cpp; its own quantiser makes it, and is built if necessary.
 * A file already made by the same recipe is not rewritten.
 */
import { createHash } from 'node:crypto';
import { mkdir, readdir, readFile, rm, stat } from 'node:fs/promises';
import { dirname, join, relative } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { readGgufHeader } from '../../src/models/gguf/gguf.ts';
import { isMixture, MIXTURES, quantizeFile, type Mixture } from './llama-quantize.ts';
import { LORAS, TEST_LORAS, writeLora, type LoraName } from './lora.ts';
import { writeModel } from './model.ts';
import { PRESETS, TEST_PRESETS, type PresetName } from './presets.ts';
import { PROJECTORS, TEST_PROJECTORS, writeProjector, type ProjectorName } from './projector.ts';
import { TYPE_NUMBER, type Encoding } from './quantize.ts';
import { llamaSource } from '../../scripts/llama-source.js';

const root = fileURLToPath(new URL('../..', import.meta.url));
const usage = `usage: make-model.ts tests | PROJECTOR | ADAPTER | PRESET [--type ${[...Object.keys(TYPE_NUMBER), ...MIXTURES].join('|')}] [--out FILE]
presets: ${Object.keys(PRESETS).join(', ')}
projectors: ${Object.keys(PROJECTORS).join(', ')}
adapters: ${Object.keys(LORAS).join(', ')}`;

/** Makes the file unless it is up to date. */
async function make(presetName: PresetName, encoding: Encoding | Mixture, path: string): Promise<void> {
  const startedAt = performance.now();
  const label = relative(root, path);
  const recipe = await recipeOf(presetName, encoding);
  if ((await recipeIn(path)) === recipe) {
    console.log(`${label}: up to date`);
    return;
  }
  await mkdir(dirname(path), { recursive: true });
  if (isMixture(encoding)) await makeMixture(presetName, encoding, path, recipe);
  else await writeModel(path, PRESETS[presetName], encoding, await llamaSource(), recipe);
  const megabytes = ((await stat(path)).size / 1e6).toFixed(1);
  console.log(`${label}: ${megabytes} MB in ${((performance.now() - startedAt) / 1000).toFixed(1)} s`);
}

async function makeProjector(name: ProjectorName): Promise<void> {
  const path = join(root, 'build', 'models', 'projectors', `${name}.gguf`);
  const recipe = await recipeOf(name, 'F16');
  if ((await recipeIn(path)) === recipe) return;
  await mkdir(dirname(path), { recursive: true });
  await writeProjector(path, PROJECTORS[name], recipe);
  console.log(`${relative(root, path)}: made`);
}

async function makeLora(name: LoraName): Promise<void> {
  const path = join(root, 'build', 'models', 'adapters', `${name}.gguf`);
  const recipe = await recipeOf(name, LORAS[name].encoding);
  if ((await recipeIn(path)) === recipe) return;
  await mkdir(dirname(path), { recursive: true });
  await writeLora(path, name, recipe);
  console.log(`${relative(root, path)}: made`);
}

/** Makes the mixture through a temporary F16 file. */
async function makeMixture(presetName: PresetName, mixture: Mixture, path: string, recipe: string): Promise<void> {
  const halves = `${path}.${process.pid}.f16`;
  try {
    await writeModel(halves, PRESETS[presetName], 'F16', await llamaSource(), recipe);
    await quantizeFile(root, halves, path, mixture);
  } finally {
    await rm(halves, { force: true });
  }
}

/** Everything that determines the bytes of the file. */
async function recipeOf(name: PresetName | ProjectorName | LoraName, encoding: Encoding | Mixture): Promise<string> {
  const hash = createHash('sha256').update(`${name} ${encoding}\n`);
  const sources = join(root, 'test', 'make-model');
  const files = (await readdir(sources)).filter((file) => !file.endsWith('.test.ts'));
  for (const file of files.sort()) hash.update(await readFile(join(sources, file)));
  hash.update(await readFile(join(root, 'node_modules', 'node-llama-cpp', 'llama', 'binariesGithubRelease.json')));
  return hash.digest('hex');
}

/** Recipe stored in the file; null if there is no readable file. */
async function recipeIn(path: string): Promise<unknown> {
  try {
    return (await readGgufHeader(path)).metadata.get('svc.recipe')?.value;
  } catch {
    return null;
  }
}

function isPreset(name: string | undefined): name is PresetName {
  return name !== undefined && Object.hasOwn(PRESETS, name);
}

function isProjector(name: string | undefined): name is ProjectorName {
  return name !== undefined && Object.hasOwn(PROJECTORS, name);
}

function isLora(name: string | undefined): name is LoraName {
  return name !== undefined && Object.hasOwn(LORAS, name);
}

function isEncoding(name: string): name is Encoding {
  return Object.hasOwn(TYPE_NUMBER, name);
}

function parse(): { what: string | undefined; type: string | undefined; out: string | undefined } {
  const { positionals, values } = parseArgs({
    allowPositionals: true,
    options: { type: { type: 'string' }, out: { type: 'string' } },
  });
  return { what: positionals.length === 1 ? positionals[0] : undefined, type: values.type, out: values.out };
}

const { what, type, out } = parse();
if (what === 'tests') {
  for (const name of TEST_PROJECTORS) await makeProjector(name);
  for (const name of TEST_LORAS) await makeLora(name);
  for (const name of TEST_PRESETS) {
    await make(name, PRESETS[name].encoding, join(root, 'build', 'models', `${name}.gguf`));
  }
} else if (isPreset(what) && (type === undefined || isEncoding(type) || isMixture(type))) {
  const encoding = type ?? PRESETS[what].encoding;
  const suffix = type === undefined ? '' : `-${type.toLowerCase()}`;
  await make(what, encoding, out ?? join(root, 'build', 'models', `${what}${suffix}.gguf`));
} else if (isProjector(what) && type === undefined && out === undefined) {
  await makeProjector(what);
} else if (isLora(what) && type === undefined && out === undefined) {
  await makeLora(what);
} else {
  console.error(usage);
  process.exitCode = 2;
}
