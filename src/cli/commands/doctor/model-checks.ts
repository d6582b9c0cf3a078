/** Checks of the model store, file by file, and of the default model, by generating one token. */
import { ControlClient } from '../../../client/control-client.ts';
import type { Paths } from '../../../home/paths.ts';
import { tryModel } from '../../../engine/try-model.ts';
import { digestOfModel } from '../../../models/store/adopted.ts';
import { BUILTIN_ID } from '../../../protocol/model/named.ts';
import { missingBuiltin } from '../../../models/store/builtin.ts';
import { shaderFolder } from '../../../models/store/prefixes.ts';
import type { DoctorCheck } from '../../../protocol/doctor.ts';
import { loadSettingsOf, type LoadDefaults, type ModelNames } from '../../../protocol/model/settings.ts';
import { foundBy, triedFields, type ModelRecord } from '../../../protocol/records.ts';
import { named, storeIn } from '../../machine/models.ts';
import { check, failed, skipped } from './check.ts';

const TOKEN_MS = 120_000;
/** Total size of files whose digest is checked, smallest first; takes some seconds. */
const READ_BYTES = 2 * 1024 ** 3;

export interface ModelCheckOptions {
  readonly modelsDir: string;
  readonly names: ModelNames;
  /** The config's section `engine`. */
  readonly engine: LoadDefaults;
  readonly daemonServes: boolean;
  /** True if an engine can be started on this machine. */
  readonly engineWorks: boolean;
}

export interface CheckedModels {
  readonly checks: readonly DoctorCheck[];
  /** null: the store cannot be read. */
  readonly models: readonly ModelRecord[] | null;
}

export async function checkModels(paths: Paths, options: ModelCheckOptions): Promise<CheckedModels> {
  const { modelsDir, names } = options;
  let models: readonly ModelRecord[];
  try {
    models = await named(storeIn(modelsDir, paths), names).list();
  } catch (error) {
    const skip = skipped('default_model', 'the model store cannot be read');
    return { checks: [failed('model_store', error, modelsDir), skip], models: null };
  }
  return { checks: [await checkStore(models, options), await checkDefaultModel(paths, models, options)], models };
}

interface FileState {
  readonly id: string;
  readonly state: string;
  readonly isBroken: boolean;
}

async function checkStore(
  models: readonly ModelRecord[],
  { modelsDir, engine }: Pick<ModelCheckOptions, 'modelsDir' | 'engine'>,
): Promise<DoctorCheck> {
  const states = await stateOfFiles(models);
  const broken = states.find(({ isBroken }) => isBroken);
  const beyond = models.flatMap((model) => beyondTraining(model, engine));
  const installed = models.filter(({ from }) => from === undefined).length;
  const hints = [
    ...(broken === undefined ? [] : [hintFor(broken.id, models.find(({ id }) => id === broken.id)?.from)]),
    ...(beyond.length === 0 ? [] : ['unset engine.context_length or models.NAME.context_length, or set a shorter one']),
  ];
  return check('model_store', hints.length === 0 ? 'ok' : 'warn', `${String(installed)} in ${modelsDir}`, {
    detail: [...states.map(({ id, state }) => `${id}: ${state}`), ...beyond].join('; ') || null,
    hint: hints.join('; ') || null,
  });
}

/** One sentence if the config sets a longer context than the model was trained for. */
function beyondTraining({ id, context_length: trained, settings }: ModelRecord, engine: LoadDefaults): string[] {
  const { context_length = 0 } = loadSettingsOf(settings, engine);
  if (trained === null || context_length <= trained) return [];
  return [
    `${id}: the config sets a context of ${String(context_length)}, it was trained for ${String(trained)} tokens`,
  ];
}

function hintFor(id: string, from: string | undefined): string {
  if (id === BUILTIN_ID) return missingBuiltin()?.hint ?? 'reinstall svc-runtime; in a checkout: git checkout models';
  const mend = from === undefined ? `restore the file of ${id} and add it again` : `install ${from}`;
  return `${mend}, or remove the ${from === undefined ? 'model' : 'name'}: svc model rm ${id}`;
}

async function stateOfFiles(models: readonly ModelRecord[]): Promise<FileState[]> {
  let left = READ_BYTES;
  const states = new Map<string, FileState>();
  for (const model of [...models].sort((a, b) => a.size_bytes - b.size_bytes)) {
    const { id, size_bytes, from } = model;
    if (from !== undefined) {
      states.set(id, { id, ...stateOfName(model, from) });
      continue;
    }
    const isRead = size_bytes <= left;
    if (isRead) left -= size_bytes;
    states.set(id, { id, ...(await stateOf(model, isRead)) });
  }
  return models.map(({ id }) => states.get(id) as FileState);
}

/** State of a name that the config gives to a model; the file is checked as that of the model. */
function stateOfName({ state }: ModelRecord, from: string): Omit<FileState, 'id'> {
  const isBroken = state === 'failed';
  return { state: isBroken ? `${from}, from which it is made, is missing or broken` : `made from ${from}`, isBroken };
}

async function stateOf(model: ModelRecord, isRead: boolean): Promise<Omit<FileState, 'id'>> {
  const { state, digest, builtin, path } = model;
  if (state === 'failed') return { state: 'its file is missing or broken', isBroken: true };
  if (digest === null) return { state: 'its file has changed since it was added', isBroken: true };
  // The built-in model's digest has just been computed from its file.
  if (builtin) return { state: digest.slice(0, 19), isBroken: false };
  if (!isRead) return { state: 'size and time are unchanged (too large for a digest check)', isBroken: false };
  try {
    if ((await digestOfModel(path)) === digest) return { state: 'digest verified', isBroken: false };
    return { state: 'SHA-256 mismatch: its content has changed since it was added', isBroken: true };
  } catch {
    return { state: 'its file cannot be read', isBroken: true };
  }
}

async function checkDefaultModel(
  paths: Paths,
  models: readonly ModelRecord[],
  { modelsDir, names, daemonServes, engineWorks }: ModelCheckOptions,
): Promise<DoctorCheck> {
  const model = models.find((each) => each.default);
  if (model === undefined) {
    return check('default_model', 'fail', null, {
      detail: 'no default model',
      hint: 'add a model: svc model add FILE',
    });
  }
  if (!daemonServes && !engineWorks) return skipped('default_model', 'the addon cannot be loaded', model.id);
  try {
    // Throws the error of the file, with its hint, as for `svc run`.
    if (model.state === 'failed') await named(storeIn(modelsDir, paths), names).find(model.id);
    const startedAt = performance.now();
    const { capabilities } = daemonServes
      ? await tryInDaemon(new ControlClient(paths.socketPath), model)
      : await tryAlone(model, shaderFolder(paths.cacheDir, model.path));
    const where = daemonServes ? 'in the daemon' : 'in an engine process of its own';
    const took = ((performance.now() - startedAt) / 1000).toFixed(1);
    const can = capabilities.join(', ') || 'nothing';
    return check('default_model', 'ok', model.id, { detail: `one token ${where} after ${took} s; found: ${can}` });
  } catch (error) {
    return failed('default_model', error, model.id);
  }
}

type Found = Pick<ModelRecord, 'capabilities'>;

async function tryAlone({ id, path, capabilities }: ModelRecord, shaders: string): Promise<Found> {
  return triedFields(capabilities, foundBy(await tryModel(id, path, TOKEN_MS, shaders)));
}

async function tryInDaemon(client: ControlClient, model: ModelRecord): Promise<Found> {
  await oneToken(client, model.id);
  return (await client.models()).find(({ id }) => id === model.id) ?? model;
}

async function oneToken(client: ControlClient, model: string): Promise<void> {
  const request = {
    model,
    messages: [{ role: 'user' as const, content: 'Hello' }],
    max_tokens: 1,
    sampling: { temperature: 0 },
    stop: [],
    route: 'local',
    timeout_ms: TOKEN_MS,
  };
  for await (const event of client.generate(request)) {
    if (event.type === 'finish' && event.usage?.output_tokens === 0) throw new Error('the model generated no token');
  }
}
