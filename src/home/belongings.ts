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
  /** Entries that svc makes: files, or directories with all that is in them. */
  readonly names: readonly string[];
  /** Files that are replaced atomically (write-file-atomic): a killed process leaves `NAME.NUMBER`. */
  readonly replaced?: readonly string[];
  /** Files with a number or a month in their name. */
  readonly pattern?: RegExp;
}

/** True if svc makes an entry of that name in the directory. */
export function isOurs({ names, replaced = [], pattern }: Belonging, name: string): boolean {
  const whole = name.replace(/\.\d+$/, '');
  return names.includes(name) || replaced.includes(name) || replaced.includes(whole) || pattern?.test(name) === true;
}

/** @param modelsDir the directory of the model store */
export function belongingsOf(paths: Paths, modelsDir: string): Belonging[] {
  return [
    // A config file that SVC_CONFIG names lies in a place of the user.
    ...(variable('SVC_CONFIG') === undefined
      ? [
          {
            what: 'configuration',
            directory: dirname(paths.configFile),
            names: ['config.json.lock'],
            replaced: ['config.json'],
          },
        ]
      : []),
    {
      what: 'keys',
      directory: paths.dataDir,
      names: ['keys.lock', 'credentials.lock'],
      replaced: ['keys.json', 'credentials.json'],
    },
    { what: 'GPU backends', directory: paths.dataDir, names: ['backends'] },
    { what: 'kept conversations', directory: paths.dataDir, names: ['history'] },
    {
      what: 'model store',
      directory: modelsDir,
      names: ['registry.lock', 'blobs', 'parts'],
      replaced: ['registry.json'],
    },
    {
      what: 'state',
      directory: paths.stateDir,
      names: [
        ...[
          'daemon.stderr',
          'daemon.stderr.service',
          'start.lock',
          'keys-seen',
          'prefix.key',
          'builtin-introduced',
          'console-link.html',
        ],
        'responses',
      ],
      replaced: ['daemon.json', 'capabilities.json'],
      pattern: /^usage-\d{4}-\d{2}\.jsonl$/,
    },
    { what: 'log', directory: dirname(paths.logFile), names: ['daemon.log'], replaced: ['daemon.log'] },
    { what: 'cache', directory: paths.cacheDir, names: ['prefixes', 'shaders', 'downloads', 'backends', 'executable'] },
    { what: 'control socket', directory: paths.runtimeDir, names: ['svc.sock'] },
  ];
}

/** Places where the documentation says to save completion scripts, for shells with one such place. */
export function completionFiles(userHome: string): string[] {
  const data = variable('XDG_DATA_HOME') ?? join(userHome, '.local', 'share');
  const config = variable('XDG_CONFIG_HOME') ?? join(userHome, '.config');
  return [join(data, 'bash-completion', 'completions', 'svc'), join(config, 'fish', 'completions', 'svc.fish')];
}
