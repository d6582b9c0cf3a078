/** The store of responses as the config wants it. */
import type { Config } from '../config/config.ts';
import { responsesFolder, type Paths } from '../home/paths.ts';
import type { Logger } from '../log/log.ts';
import { ResponseStore } from './response-store.ts';

const DAY_MS = 86_400_000;

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
