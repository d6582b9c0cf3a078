/**
 * Installs the packages of build/packages with a package manager, from a registry that has nothing else (yarn also
 * asks for the dependencies, which are in svc-runtime), without scripts, and has the installed svc answer a prompt.
 *
 *   node scripts/install-with.js npm|pnpm|yarn [FOLDER OF TARBALLS]
 */
import { execFile } from 'node:child_process';
import { createHash } from 'node:crypto';
import { mkdir, mkdtemp, realpath, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { writeJson } from './steps/pack.js';
import { manifest, packageName, PACKAGES, platforms, restrictions, RUNTIME } from './steps/platforms.js';
import { startRegistry } from './steps/registry.js';
import { inRoot } from './steps/root.js';
import { main, run, StepError } from './steps/run.js';

/**
 * Versions that run on the oldest supported Node, and what each needs to keep to `home`. `asksForAll`: it looks up
 * dependencies that are bundled, too.
 */
const MANAGERS = {
  npm: { args: (home) => ['install', '--ignore-scripts', '--cache', join(home, 'cache')] },
  pnpm: { version: '10.18.0', args: (home) => ['install', '--ignore-scripts', '--store-dir', join(home, 'store')] },
  yarn: {
    version: '1.22.22',
    asksForAll: true,
    args: (home) => ['install', '--ignore-scripts', '--no-lockfile', '--cache-folder', join(home, 'cache')],
  },
};

await main(async () => {
  const [name, folder = inRoot(PACKAGES)] = process.argv.slice(2);
  const manager = MANAGERS[name];
  if (manager === undefined) throw new StepError(`usage: install-with.js ${Object.keys(MANAGERS).join('|')} [FOLDER]`);
  const home = await realpath(await mkdtemp(join(tmpdir(), 'svc-install-')));
  const others = manager.asksForAll ? await configuredRegistry() : null;
  const registry = await startRegistry([folder], { listed: platformManifests(), others });
  try {
    const program = await programOf(name, manager, home);
    const project = join(home, 'project');
    await writeProject(project);
    const args = [...manager.args(home), '--registry', registry.url];
    await run(`${name} install`, program, args, { cwd: project });
    await answer(project, home);
    process.stdout.write(`${name}: installed and answered\n`);
  } finally {
    registry.close();
    await rm(home, { recursive: true, force: true, maxRetries: 5 });
  }
});

/** Manifests of all platform packages: yarn reads those of other platforms, which may not have been built here. */
function platformManifests() {
  const { version } = manifest;
  // The digest of no file: yarn wants one, npm and pnpm do not look.
  const integrity = `sha512-${createHash('sha512').digest('base64')}`;
  return Object.keys(platforms).map((each) => ({ name: packageName(each), version, integrity, ...restrictions(each) }));
}

async function configuredRegistry() {
  return (await run('asking npm', 'npm', ['config', 'get', 'registry'])).trim();
}

/** Installs the package manager from the configured registry, unless it comes with Node. */
async function programOf(name, { version }, home) {
  if (version === undefined) return 'npm';
  const prefix = join(home, 'manager');
  const args = ['install', '--prefix', prefix, '--ignore-scripts', `${name}@${version}`];
  await run(`fetching ${name}`, 'npm', args, { cwd: home });
  return join(prefix, 'node_modules', '.bin', process.platform === 'win32' ? `${name}.cmd` : name);
}

async function writeProject(folder) {
  await mkdir(folder);
  const dependencies = { [RUNTIME]: manifest.version };
  await writeJson(join(folder, 'package.json'), { name: 'project', version: '1.0.0', private: true, dependencies });
}

async function answer(project, home) {
  const env = {
    ...process.env,
    SVC_HOME: join(home, 'svc'),
    SVC_HTTP_ADDR: '127.0.0.1:0',
    SVC_GRPC_ADDR: '127.0.0.1:0',
  };
  const svc = async (...args) => {
    const entry = join(project, 'node_modules', RUNTIME, 'bin', 'svc.cjs');
    const call = promisify(execFile)(process.execPath, [entry, ...args], { env, cwd: project });
    call.child.stdin.end();
    return (await call).stdout;
  };
  const { addon } = JSON.parse(await svc('version', '--json'));
  if (addon.error !== null || !addon.path.startsWith(project)) throw new StepError(JSON.stringify(addon));
  try {
    const { text } = JSON.parse(await svc('run', '--json', '--max-tokens', '8', '--seed', '1', 'Hello'));
    if (text === '') throw new StepError('svc run gave no text');
  } finally {
    await svc('stop', '--force');
  }
}
