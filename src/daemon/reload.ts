/**
 * Reading the config again while the daemon runs. What can change at once does; the rest is named,
 * each time until the daemon is started anew. A config that is wrong changes nothing.
 */
import { existsSync } from 'node:fs';
import { loadConfig, type Config } from '../config/config.ts';
import type { Paths } from '../config/paths.ts';
import type { Logger } from '../log/log.ts';
import { SvcError } from '../protocol/errors.ts';
import type { ReloadRecord } from '../protocol/routes.ts';
import type { ConditionWriter } from './conditions.ts';

/** Settings that a running daemon takes over: whole sections too. */
const RELOADABLE: readonly string[] = [
  'log.level',
  'http.allowed_hosts',
  'engine.prefix_disk_bytes',
  'providers',
  'policies',
  'cloud',
];

export interface ReloaderOptions {
  readonly paths: Pick<Paths, 'configFile'>;
  /** What the daemon was started with. */
  readonly config: Config;
  /** Of the condition `config`. */
  readonly condition: ConditionWriter;
  readonly log: Logger;
  /** Takes over what others hold. Throws nothing. */
  apply(config: Config): void;
}

export class Reloader {
  readonly #options: ReloaderOptions;
  readonly #started: Config;
  /** As in force; of settings that wait for a restart it holds what the file says. */
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
      log.error({ err: error }, 'the config cannot be used: what was in force stays');
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
  return RELOADABLE.some((each) => name === each || name.startsWith(`${each}.`));
}

/** The names of the settings, `section.key`, in which two configs differ. */
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
