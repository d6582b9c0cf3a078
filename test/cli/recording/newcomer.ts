/**
 * A user who has just got svc's packages: a home that is mounted at /home, so that no path of this machine is seen, and
 * a model hub and an npm registry on this machine, so that no network is needed.
 */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { cp, mkdir, mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { startRegistry } from '../../../scripts/steps/registry.js';
import { builtinModelPath } from '../../../src/models/store/builtin.ts';
import { root } from '../../architecture/source-files.ts';
import { FakeHub, type BytesRequest } from '../../models/pull/fake-hub.ts';

/** Repository of the hub: the built-in model under another name. */
export const REPOSITORY = 'demo/nano-GGUF';
/** Repository of the hub: a model for coding agents, with random weights. */
export const CODER = 'demo/coder-GGUF';
export const CODER_PRESET = 'demo-coder';
const PACKAGES = join(root, 'build', 'packages');
const HOME = '/home/you';
const USER = '1000';
/** Prints the exit status before the prompt, unless it is 0. */
const PROMPT = '${?#0}$ ';
/** The hub sends a file in pieces, one in each interval, so that progress is seen. */
const PIECES = 25;
const INTERVAL_MS = 100;

const SCRIPT = `
mount --bind "$1/home" /home
mount --bind "$1/run" /run
shift
cd ${HOME}/svc
exec setpriv --reuid ${USER} --regid ${USER} --clear-groups env -i "$@"
`;

export interface Newcomer {
  /** The command line that runs another as this user. */
  as(...command: readonly string[]): string[];
  remove(): Promise<void>;
}

/** REQUIRES: root, to mount; build/packages; build/models/demo-coder.gguf; free ports 7117 and 7118. */
export async function makeNewcomer(): Promise<Newcomer> {
  const registry = await startRegistry([PACKAGES]);
  const hub = await new FakeHub().start();
  hub.add(REPOSITORY, 'nano-Q8_0.gguf', await readFile(builtinModelPath()));
  const coder = join(root, 'build', 'models', `${CODER_PRESET}.gguf`);
  hub.add(CODER, 'coder-Q4_0.gguf', await readFile(coder));
  hub.onBytes = sendSlowly(hub);
  const folder = await mkdtemp(join(tmpdir(), 'svc-'));
  const you = join(folder, 'home', 'you');
  for (const path of [you, join(folder, 'run', 'user', USER)]) await mkdir(path, { recursive: true, mode: 0o700 });
  await cp(PACKAGES, join(you, 'svc', 'build', 'packages'), { recursive: true });
  await run('chown', '-R', `${USER}:${USER}`, you, join(folder, 'run', 'user', USER));
  await run('chmod', 'a+rx', folder, join(folder, 'home'), join(folder, 'run'), join(folder, 'run', 'user'));
  const env = environment(registry.url, hub.endpoint);
  const as = (...command: readonly string[]): string[] => [
    ...['unshare', '--mount', 'sh', '-ec', SCRIPT, 'sh', folder],
    ...Object.entries(env).map(([name, value]) => `${name}=${value}`),
    ...command,
  ];
  return {
    as,
    remove: async () => {
      await run(...as('svc', 'stop', '--force')).catch(() => undefined);
      registry.close();
      await hub.stop();
      await rm(folder, { recursive: true, force: true, maxRetries: 3 });
    },
  };
}

function environment(registry: string, hub: string): Record<string, string> {
  return {
    HOME,
    PATH: [`${HOME}/.local/bin`, dirname(process.execPath), '/usr/bin', '/bin'].join(':'),
    LANG: 'C.UTF-8',
    TERM: 'xterm-256color',
    SHELL: '/bin/sh',
    XDG_RUNTIME_DIR: `/run/user/${USER}`,
    PS1: PROMPT,
    HF_ENDPOINT: hub,
    npm_config_registry: registry,
    npm_config_prefix: `${HOME}/.local`,
    npm_config_ignore_scripts: 'true',
    // A spinner is never idle, so players could not shorten it.
    npm_config_progress: 'false',
    npm_config_audit: 'false',
    npm_config_fund: 'false',
    npm_config_update_notifier: 'false',
  };
}

function sendSlowly(hub: FakeHub) {
  return async ({ req, res, content, from, to }: BytesRequest): Promise<boolean> => {
    res.writeHead(req.headers.range === undefined ? 200 : 206, {
      etag: hub.etag(content),
      'content-length': String(to - from),
      'content-range': `bytes ${from}-${to - 1}/${content.length}`,
    });
    const bytes = Math.ceil(content.length / PIECES);
    for (let at = from; at < to && !res.destroyed; at += bytes) {
      await hub.write(res, content.subarray(at, Math.min(to, at + bytes)));
      await pause(INTERVAL_MS);
    }
    res.end();
    return true;
  };
}

async function run(program = '', ...args: readonly string[]): Promise<void> {
  const [code] = (await once(spawn(program, args, { stdio: 'ignore' }), 'close')) as [number | null];
  if (code !== 0) throw new Error(`${program} ended with ${String(code)}`);
}
