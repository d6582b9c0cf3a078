/** The model store, and one real token of the default model. */
import { Client } from '../../client/client.ts';
import type { Paths } from '../../config/paths.ts';
import { tryModel } from '../../engine/try-model.ts';
import type { DoctorCheck, ModelRecord } from '../../protocol/records.ts';
import { openStore, storeDirectory } from '../models.ts';
import { check, failed } from './check.ts';

const TOKEN_MS = 120_000;

export async function checkModels(paths: Paths, daemonServes: boolean): Promise<DoctorCheck[]> {
  let models: readonly ModelRecord[];
  try {
    models = await openStore().list();
  } catch (error) {
    return [failed('model_store', error)];
  }
  const broken = models.filter((model) => model.state === 'failed');
  const value = `${String(models.length)} in ${storeDirectory()}`;
  const store =
    broken.length === 0
      ? check('model_store', 'ok', value)
      : check('model_store', 'warn', value, {
          detail: `cannot be used: ${broken.map((model) => model.id).join(', ')}`,
          hint: `see \`svc model show ${broken[0]?.id ?? ''}\`, or remove it with \`svc model rm\``,
        });
  return [store, await checkDefaultModel(paths, models, daemonServes)];
}

async function checkDefaultModel(
  paths: Paths,
  models: readonly ModelRecord[],
  daemonServes: boolean,
): Promise<DoctorCheck> {
  const model = models.find((each) => each.default);
  if (model === undefined) {
    return check('default_model', 'fail', null, { detail: 'there is none', hint: 'add one: svc model add FILE' });
  }
  try {
    const startedAt = performance.now();
    if (daemonServes) await oneToken(new Client(paths.socketPath), model.id);
    else await tryModel(model.id, model.path, TOKEN_MS);
    const where = daemonServes ? 'in the daemon' : 'in an engine process of its own';
    const took = ((performance.now() - startedAt) / 1000).toFixed(1);
    return check('default_model', 'ok', model.id, { detail: `one token ${where} after ${took} s` });
  } catch (error) {
    return failed('default_model', error, model.id);
  }
}

async function oneToken(client: Client, model: string): Promise<void> {
  const request = {
    model,
    messages: [{ role: 'user' as const, content: 'Hello' }],
    max_tokens: 1,
    sampling: { temperature: 0 },
    stop: [],
    route: 'local',
    timeout_ms: TOKEN_MS,
  };
  for await (const event of client.generate(request, new AbortController().signal)) {
    if (event.type === 'finish' && event.usage.output_tokens === 0) throw new Error('no token came');
  }
}
