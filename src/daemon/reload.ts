/**
 * Reloads the config while the daemon runs. Reloadable settings take effect at once; the others are reported with
 * every reload until the daemon is restarted. An invalid config changes nothing.
 */
import { existsSync } from 'node:fs';
import { loadConfig, type Config } from '../config/config.ts';
import { isSettingOfModels } from '../config/model-settings.ts';
import type { Paths } from '../home/paths.ts';
import type { Logger } from '../log/log.ts';
import { SvcError } from '../protocol/errors.ts';
import type { ReloadRecord } from '../protocol/routes.ts';
import type { ConditionWriter } from './conditions.ts';

/** Settings, or whole sections, that a running daemon applies. */
const RELOADABLE: readonly string[] = [
  'log.level',
  'http.allowed_hosts',
  'http.origins',
  'engine.prefix_disk_bytes',
  'providers',
  'policies',
  'cloud',
  // Only commands use it.
  'history',
];

export interface ReloaderOptions {
  readonly paths: Pick<Paths, 'configFile'>;
  /** Config at the start of the daemon. */
  readonly config: Config;
  /** Writer of the condition `config`. */
  readonly condition: ConditionWriter;
  readonly log: Logger;
  /** Passes the config on to the parts that hold settings. Never throws. */
  apply(config: Config): void;
}

export class Reloader {
  readonly #options: ReloaderOptions;
  readonly #started: Config;
  /** Config in force, except that settings that wait for a restart have the file's value. */
  #config: Config;

  constructor(options: ReloaderOptions) {
    this.#options = options;
    this.#started = options.config;
    this.#config = options.config;
    this.#tell([]);
  }

  get config(): Config {
    return this.#config;
  }

  /** Throws CONFIG_INVALID. */
  reload(): ReloadRecord {
    const { paths, log, condition, apply } = this.#options;
    let config: Config;
    try {
      config = loadConfig(paths);
    } catch (error) {
      log.error({ err: error }, 'the config is invalid: the previous one stays in force');
      condition('warn', `it was changed and cannot be used: ${SvcError.from(error).message}`);
      throw error;
    }
    const applied = changes(this.#config, config).filter(isReloadable);
    const waiting = changes(this.#started, config).filter((name) => !isReloadable(name));
    this.#config = config;
    log.level = config.log.level;
    apply(config);
    log.info({ applied, restart_needed: waiting }, 'config reloaded');
    this.#tell(waiting);
    return { applied, restart_needed: waiting };
  }

  #tell(waiting: readonly string[]): void {
    const source = existsSync(this.#options.paths.configFile)
      ? 'read from the config file'
      : 'defaults: there is no config file';
    const rest = waiting.length === 0 ? '' : `; a restart is needed for ${waiting.join(', ')}`;
    this.#options.condition('ok', `${source}${rest}`);
  }
}

function isReloadable(name: string): boolean {
  // The rest of the section are names of models.
  const [section, key = ''] = name.split('.', 2);
  if (section === 'models' && !isSettingOfModels(key)) return true;
  return RELOADABLE.some((each) => name === each || name.startsWith(`${each}.`));
}

/** Returns the names (`section.key`) of the settings in which two configs differ. */
function changes(before: Config, after: Config): string[] {
  const [old, now] = [settings(before), settings(after)];
  return [...new Set([...old.keys(), ...now.keys()])].filter((name) => old.get(name) !== now.get(name)).sort();
}

function settings(config: Config): Map<string, string> {
  const named = Object.entries(config).flatMap(([section, entries]) =>
    Object.entries(entries).map(([key, value]): [string, string] => [`${section}.${key}`, JSON.stringify(value)]),
  );
  return new Map(named);
}
