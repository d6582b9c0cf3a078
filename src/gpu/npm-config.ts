/**
 * Reads the user's npm configuration for the registry of a package, as npm does: variables, the user's .npmrc, the
 * global one. If none of them names a registry, npm itself is asked for its default.
 */
import { execFile } from 'node:child_process';
import { homedir } from 'node:os';
import { dirname, join } from 'node:path';
import { promisify } from 'node:util';
import { readText } from '../files/open-file.ts';
import type { Credential } from '../models/pull/web.ts';
import { keyIn, variable } from '../process/environment.ts';
import { orElse } from '../protocol/foreign-text.ts';
import { SvcError } from '../protocol/errors.ts';

export interface NpmRegistry {
  /** Ends with a slash. */
  readonly url: URL;
  /** Sent to the registry's origin only. undefined: there is none for this registry. */
  readonly credential: Credential | undefined;
  /** Path of the certificates to trust, in PEM. */
  readonly cafile: string | undefined;
}

type Settings = ReadonlyMap<string, string>;

const NPM_MS = 20_000;

/** @param scope `@owner` of the package. @throws SvcError CONFIG_INVALID if there is no registry, or its URL is none */
export async function npmRegistry(scope: string): Promise<NpmRegistry> {
  const settings = await readSettings();
  const named = settings.get(`${scope}:registry`) ?? settings.get('registry') ?? (await askNpm());
  const url = orElse(() => new URL(named.endsWith('/') ? named : `${named}/`), null);
  if (url === null || !/^https?:$/.test(url.protocol) || url.username !== '') {
    throw new SvcError('CONFIG_INVALID', 'the npm registry of your npm config is not an http(s) URL', {
      hint: 'check it: npm config get registry',
    });
  }
  return { url, credential: credentialFor(url, settings), cafile: settings.get('cafile') };
}

/** Settings of variables and files; the first that has a name wins. */
async function readSettings(): Promise<Settings> {
  const user = variable('NPM_CONFIG_USERCONFIG') ?? variable('npm_config_userconfig') ?? join(homedir(), '.npmrc');
  const global = variable('NPM_CONFIG_GLOBALCONFIG') ?? variable('npm_config_globalconfig');
  const prefix = dirname(dirname(process.execPath));
  const files = [user, ...(global === undefined ? [join(prefix, 'etc', 'npmrc'), '/etc/npmrc'] : [global])];
  const texts = await Promise.all(files.map((path) => readText(path).catch(() => '')));
  const registry = variable('NPM_CONFIG_REGISTRY') ?? variable('npm_config_registry');
  return new Map([
    ...texts.reverse().flatMap((text) => parseNpmrc(text, keyIn)),
    ...(registry === undefined ? [] : [['registry', registry] as const]),
  ]);
}

/** Parses `name = value` lines; `${NAME}` is replaced by a variable, and left alone if it is not set. */
export function parseNpmrc(
  text: string,
  valueOf: (name: string) => string | undefined,
): (readonly [name: string, value: string])[] {
  return text.split(/\r?\n/).flatMap((line) => {
    const equals = line.indexOf('=');
    const name = line.slice(0, Math.max(0, equals)).trim();
    const value = line.slice(equals + 1).trim();
    if (name === '' || name.startsWith(';') || name.startsWith('#')) return [];
    const bare = value.length > 1 && value.startsWith('"') && value.endsWith('"') ? value.slice(1, -1) : value;
    return [[name, bare.replace(/\$\{(\w+)\}/g, (whole, variableName: string) => valueOf(variableName) ?? whole)]];
  });
}

/** Credentials are stored by host and path without the scheme; the longest path that contains the URL's counts. */
function credentialFor({ host, pathname, origin }: URL, settings: Settings): Credential | undefined {
  for (let path = pathname; ; path = path.slice(0, path.lastIndexOf('/', path.length - 2) + 1)) {
    const token = settings.get(`//${host}${path}:_authToken`);
    if (token !== undefined) return { origin, token };
    const basic = settings.get(`//${host}${path}:_auth`);
    if (basic !== undefined) return { origin, token: basic, scheme: 'Basic' };
    if (path.length <= 1) return undefined;
  }
}

async function askNpm(): Promise<string> {
  try {
    const isWindows = process.platform === 'win32';
    const { stdout } = await promisify(execFile)(isWindows ? 'npm.cmd' : 'npm', ['config', 'get', 'registry'], {
      cwd: homedir(),
      timeout: NPM_MS,
      shell: isWindows,
    });
    return stdout.trim();
  } catch (error) {
    throw new SvcError('CONFIG_INVALID', 'no npm registry is configured, and npm is not installed', {
      hint: 'set NPM_CONFIG_REGISTRY to the URL of a registry, or install npm',
      cause: error,
    });
  }
}
