import { existsSync } from 'node:fs';
import { homedir } from 'node:os';
import { dirname, join, resolve } from 'node:path';
import { parseModelfile } from '../../../models/modelfile/modelfile.ts';
import { checkModelId } from '../../../models/store/model-id.ts';
import { SvcError } from '../../../protocol/errors.ts';
import type { ModelSettings } from '../../../protocol/model/settings.ts';
import { readInput } from '../../asking/stdin.ts';
import { readTextFile } from '../../asking/text-file.ts';
import { addAdapter } from '../../machine/adapters.ts';
import { configuredNames, findModel, openStore } from '../../machine/models.ts';
import { setName } from '../../machine/model-names.ts';
import { jsonFlag, type Run, type Spec } from '../../spec.ts';
import { say } from '../../terminal/output.ts';
import { printResult } from '../../terminal/result.ts';

const LARGEST_BYTES = 512 * 1024;

export const spec = {
  summary: "Give a model a further name, with settings from Ollama's Modelfile",
  detail: [
    'The name is written to the config as models.NAME, and replaces an earlier one. FROM is an installed model or a .gguf file, which is then registered in its place; the file of ADAPTER is added to that model.',
  ],
  arguments: [{ name: 'name', required: true }],
  flags: {
    file: {
      kind: 'string',
      short: 'f',
      value: 'FILE',
      summary: 'the Modelfile; - reads standard input',
      default: 'Modelfile',
      completes: 'file',
    },
    json: jsonFlag,
  },
  examples: ['svc model create mario -f Modelfile', 'cat Modelfile | svc model create mario -f -'],
} as const satisfies Spec;

export const run: Run<typeof spec> = async ({ file, json }, { name }) => {
  checkModelId(name);
  const isInput = file === '-';
  const text = isInput ? await readInput(LARGEST_BYTES) : await readTextFile(file, LARGEST_BYTES);
  const what = isInput ? 'standard input' : file;
  const { settings, adapters, skipped } = parseModelfile(text, what);
  await checkUnused(name);
  const folder = isInput ? process.cwd() : dirname(resolve(file));
  const from = await installed(settings.from, folder);
  const ids = new Set<string>();
  for (const adapter of adapters) ids.add((await addAdapter(from, pathIn(folder, adapter))).id);
  const lora = [...ids].map((id) => ({ id, scale: 1 }));
  const made: ModelSettings = { ...settings, from, ...(lora.length === 0 ? {} : { lora }) };
  await setName(name, made);
  for (const each of skipped) say(`${what}: ${each}`);
  printResult(
    json,
    { name, settings: made, skipped },
    `created ${name} from ${from}; try it: svc run -m ${name} "Hello"`,
  );
};

/** Throws INVALID_REQUEST if an installed model has this name. */
async function checkUnused(name: string): Promise<void> {
  const isOurs = Object.entries(configuredNames()).some(
    ([each, { from }]) => each.toLowerCase() === name.toLowerCase() && from !== undefined,
  );
  if (!isOurs) await openStore().checkName(name);
}

/** Path of a file that a Modelfile in `folder` names; as in Ollama, `~` is the home directory. */
function pathIn(folder: string, named: string): string {
  return /^~[/\\]/.test(named) ? join(homedir(), named.slice(2)) : resolve(folder, named);
}

/** Returns the id of the model; a file is registered first. */
async function installed(from: string, folder: string): Promise<string> {
  const path = pathIn(folder, from);
  const isFile = /\.gguf$/i.test(from) || (/^(\.{1,2}|~)?[/\\]/.test(from) && existsSync(path));
  if (isFile) return (await openStore().add(path)).id;
  try {
    return (await findModel(from)).id;
  } catch (error) {
    if (!(error instanceof SvcError) || error.code !== 'MODEL_NOT_FOUND') throw error;
    const pull = /[:/]/.test(from) ? `ollama:${from}` : from;
    throw new SvcError('MODEL_NOT_FOUND', `FROM ${from}: ${error.message}`, {
      hint: `${error.hint ?? ''}; or pull it: svc model pull ${pull}`.replace(/^; or p/, 'p'),
      cause: error,
    });
  }
}
