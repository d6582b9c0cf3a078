/** The responses as the config wants them. */
import type { Config } from '../config/config.ts';
import { responsesFolder, type Paths } from '../home/paths.ts';
import type { Logger } from '../log/log.ts';
import { SvcError } from '../protocol/errors.ts';
import { DAY_MS } from '../protocol/limits.ts';
import type { Tracer } from '../protocol/traces/span.ts';
import { BackgroundResponses } from './background/background.ts';
import type { Route } from './background/run.ts';
import { ResponseStore } from './response-store.ts';

export function responseStoreOf(
  { store, keep_days, disk_bytes }: Config['responses'],
  paths: Paths,
  log: Logger,
): ResponseStore {
  return new ResponseStore({
    dir: responsesFolder(paths),
    enabled: store,
    keepMs: keep_days * DAY_MS,
    mostBytes: disk_bytes,
    onFailure: (error) => log.warn({ err: error }, 'stored responses cannot be tidied up'),
  });
}

/** `keys.has` rejects with a retryable error while it is not known whether there is such a key. */
export function backgroundOf(
  store: ResponseStore,
  router: { readonly route: Route },
  tracer: Tracer,
  keys: { has(name: string): Promise<boolean> },
  log: Logger,
): BackgroundResponses {
  return new BackgroundResponses({
    store,
    tracer,
    async *route(request, context) {
      const { kind, name } = context.caller;
      // Perhaps the key was deleted since the response was requested. While that is not known, the response waits.
      if (kind === 'key' && !(await keys.has(name ?? ''))) {
        throw new SvcError('UNAUTHORIZED', 'the API key that asked for this response is no longer valid');
      }
      yield* router.route(request, context);
    },
    onFailure: (error) => log.warn({ err: error }, 'a background response cannot be kept'),
  });
}
