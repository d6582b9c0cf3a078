/**
 * Every entry on the disk that svc makes: what `svc uninstall` removes. An entry of any other name in these directories
 * is not svc's.
 */
import { dirname, join } from 'node:path';
import { variable } from '../process/environment.ts';
import type { Paths } from './paths.ts';

export interface Belonging {
  readonly what: string;
  readonly directory: string;
  /** Names of its entries that svc makes: files, or directories with all that is in them. */
  readonly names: RegExp;
}

/** Files that are replaced atomically (write-file-atomic): a killed process leaves `NAME.NUMBER`. */
const atomic = (...names: readonly string[]): string => `(${names.join('|')})(\\.\\d+)?`;
const exactly = (...alternatives: readonly string[]): RegExp => new RegExp(`^(${alternatives.join('|')})$`);

/** @param modelsDir the directory of the model store */
export function belongingsOf(paths: Paths, modelsDir: string): Belonging[] {
  return [
    // A config file that SVC_CONFIG names lies in a place of the user.
    ...(variable('SVC_CONFIG') === undefined
      ? [
          {
            what: 'configuration',
            directory: dirname(paths.configFile),
            names: exactly(atomic('config\\.json'), 'config\\.json\\.lock'),
          },
        ]
      : []),
    {
      what: 'keys',
      directory: paths.dataDir,
      names: exactly(atomic('keys\\.json', 'credentials\\.json'), 'keys\\.lock', 'credentials\\.lock'),
    },
    { what: 'GPU backends', directory: paths.dataDir, names: exactly('backends') },
    { what: 'kept conversations', directory: paths.dataDir, names: exactly('history') },
    {
      what: 'model store',
      directory: modelsDir,
      names: exactly(atomic('registry\\.json'), 'registry\\.lock', 'blobs', 'parts'),
    },
    {
      what: 'state',
      directory: paths.stateDir,
      names: exactly(
        atomic('daemon\\.json', 'capabilities\\.json'),
        ...['daemon\\.stderr', 'start\\.lock', 'keys-seen', 'prefix\\.key', 'builtin-introduced', 'console-link\\.html'],
        ...['usage-\\d{4}-\\d{2}\\.jsonl', 'responses'],
      ),
    },
    { what: 'log', directory: dirname(paths.logFile), names: exactly('daemon\\.log(\\.\\d+)?') },
    { what: 'cache', directory: paths.cacheDir, names: exactly('prefixes', 'shaders', 'downloads', 'backends', 'executable') },
    { what: 'control socket', directory: paths.runtimeDir, names: exactly('svc\\.sock') },
  ];
}

/** Places where the documentation says to save completion scripts, for shells with one such place. */
export function completionFiles(userHome: string): string[] {
  const data = variable('XDG_DATA_HOME') ?? join(userHome, '.local', 'share');
  const config = variable('XDG_CONFIG_HOME') ?? join(userHome, '.config');
  return [join(data, 'bash-completion', 'completions', 'svc'), join(config, 'fish', 'completions', 'svc.fish')];
}
