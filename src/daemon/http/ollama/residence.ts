/** Which model a request of Ollama's API means, and loading and unloading it. */
import { SvcError } from '../../../protocol/errors.ts';
import { given } from '../../../protocol/given.ts';
import { findModel, withoutLatest } from '../../../protocol/ollama/names.ts';
import type { ListedModel } from '../../../protocol/model/listed.ts';
import { DEFAULT_NAME } from '../../../protocol/model/named.ts';
import type { ModelRecord } from '../../../protocol/records.ts';
import type { Exchange } from '../exchange.ts';
import { listedModels } from '../openai/models.ts';
import { modelsFor } from '../../withhold.ts';

/** Resolves with the record of an installed model. Throws MODEL_NOT_FOUND. */
export async function recordOf(
  { services, caller }: Pick<Exchange, 'services' | 'caller'>,
  typed: string,
): Promise<ModelRecord> {
  const found = findModel(typed, modelsFor(await services.models(), caller));
  if (found !== undefined) return found;
  throw notFound(typed);
}

/** Resolves with a model of the list. Throws MODEL_NOT_FOUND. */
export async function listedOf(exchange: Exchange, typed: string): Promise<ListedModel> {
  const found = findModel(typed, await listedModels(exchange));
  if (found !== undefined) return found;
  throw notFound(typed);
}

function notFound(typed: string): SvcError {
  return new SvcError('MODEL_NOT_FOUND', `model '${typed}' not found`, {
    hint: 'see GET /api/tags or `svc model list`',
    param: 'model',
  });
}

/** Resolves with the `model` of a request to the router; absent: the default. */
export async function routed(exchange: Exchange, typed: string): Promise<{ readonly model?: string }> {
  const bare = withoutLatest(typed);
  if (bare === DEFAULT_NAME) return {};
  // Without the tag the router knows the name, or has no such model either.
  if (bare === typed) return { model: typed };
  return { model: findModel(typed, await listedModels(exchange))?.id ?? bare };
}

/**
 * Loads a model for later requests, or unloads it if it is to stay for 0 seconds. Resolves with which of the two:
 * a model in use goes after its last use, as in Ollama. Nothing is to be done for a model of a provider or a policy.
 * Throws MODEL_NOT_FOUND, FORBIDDEN if the caller may not unload it, and errors of the load.
 */
export async function loadOrUnload(
  exchange: Exchange,
  typed: string,
  keepAliveSeconds: number | undefined,
): Promise<'load' | 'unload'> {
  const { services, signal, caller } = exchange;
  const listed = findModel(typed, await listedModels(exchange));
  if (listed !== undefined && listed.record === null) return keepAliveSeconds === 0 ? 'unload' : 'load';
  const { id } = await recordOf(exchange, typed);
  const isAdmin = caller?.scope === 'admin';
  if (keepAliveSeconds !== 0) {
    const wishes = { briefly: true, ...given({ keep_alive_seconds: isAdmin ? keepAliveSeconds : undefined }) };
    for await (const event of services.load(id, signal, wishes))
      if (event.type === 'error') throw SvcError.fromRecord(event.error);
    return 'load';
  }
  if (!isAdmin) {
    throw new SvcError('FORBIDDEN', 'unloading a model needs an API key of scope admin', {
      hint: 'others may use it; it is unloaded by itself when it is idle',
      param: 'keep_alive',
    });
  }
  await services.unload(id, true);
  return 'unload';
}
