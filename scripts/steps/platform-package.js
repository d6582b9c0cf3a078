/** Makes the package of native files for one platform: the engine, its libraries, and the built-in model. */
import { execFile } from 'node:child_process';
import { copyFile, mkdir, readdir, readFile, realpath, writeFile } from 'node:fs/promises';
import { availableParallelism } from 'node:os';
import { basename, join, relative } from 'node:path';
import { promisify } from 'node:util';
import { addonFolder, buildAddon, nativeInputs } from './addon.js';
import { configureFolder } from './cmake.js';
import { unpackLlamaCpp } from './llama-cpp.js';
import { pack, stagingFolder, writeJson } from './pack.js';
import { host, manifest, packageName, platforms, restrictions, tarballName } from './platforms.js';
import { inRoot, root } from './root.js';
import { run, StepError } from './run.js';
import { BUILT_ON_LINUX, isInstalled, requireTools } from './tools.js';
import { unlessFresh } from './unless-fresh.js';

const MODEL = 'models/nano/nano.gguf';
const NOTICES = ['LICENSE', 'THIRD_PARTY_NOTICES.md'];

/** Returns why the package cannot be built on this machine, otherwise null. */
export async function obstacleTo(platform) {
  const { os, crossCompiler } = platforms[platform];
  if (os === 'win32' && platform === host) return BUILT_ON_LINUX;
  if (platform === host) return null;
  if (crossCompiler === undefined) return `${platform} is built on such a machine only`;
  return (await isInstalled(crossCompiler)) ? null : `${crossCompiler} is not installed`;
}

/** Returns the folder of the native files, built if need be. */
export async function buildNative(platform, targets = []) {
  const obstacle = await obstacleTo(platform);
  if (obstacle !== null) throw new StepError(`${packageName(platform)} cannot be built here: ${obstacle}`);
  await unpackLlamaCpp();
  if (platform !== host) return await crossBuild(platform, { targets });
  if (platforms[platform].fromSource !== undefined) return await sourceBuild(platform);
  await buildAddon();
  await refuseOwnProcessorOnly();
  return `${addonFolder}/bin`;
}

/** Makes the tarball in `destination`; returns its path. */
export async function makePlatformPackage(platform, destination) {
  const bin = await buildNative(platform);
  const binaries = await nativeFiles(bin);
  const name = packageName(platform);
  const scripts = ['pack', 'platform-package'].map((step) => `scripts/steps/${step}.js`);
  const inputs = [...binaries.map((file) => `${bin}/${file}`), MODEL, ...noticesOf(platform), ...scripts];
  const tarball = join(destination, tarballName(name));
  const outputs = [relative(root, tarball)];
  const facts = [manifestOf(platform), readmeOf(platform), destination];
  await unlessFresh(name, { inputs, facts, outputs }, async () => {
    const folder = await stagingFolder(name);
    await copyNotices(platform, folder);
    await stageNative(platform, bin, folder);
    await writeJson(join(folder, 'package.json'), manifestOf(platform));
    await writeFile(join(folder, 'README.md'), readmeOf(platform));
    await pack(folder, destination);
  });
  return tarball;
}

/** Copies the native files of `bin` to `bin/` in the folder, ready to be shipped, and the built-in model. */
export async function stageNative(platform, bin, folder) {
  await copyFile(inRoot(MODEL), join(folder, 'nano.gguf'));
  await mkdir(join(folder, 'bin'));
  // The libraries are links into node_modules.
  for (const file of await nativeFiles(bin)) {
    await copyFile(await realpath(inRoot(bin, file)), join(folder, 'bin', file));
  }
  await strip(join(folder, 'bin'), platform);
  if (platforms[platform].os === 'linux') await trimRunPaths(join(folder, 'bin'));
}

/** Names of the files that ship: the folder also contains the engine's tests, and on Windows import libraries. */
export async function nativeFiles(bin) {
  return (await readdir(inRoot(bin))).filter((name) => /\.(node|so|dylib|dll)$/.test(name));
}

/** Files of licences in the package. */
export function noticesOf(platform) {
  return [...NOTICES, ...(platforms[platform].notices ?? [])];
}

/** Copies the licences of what is shipped for the platform into the folder itself. */
export async function copyNotices(platform, folder) {
  for (const file of noticesOf(platform)) await copyFile(inRoot(file), join(folder, basename(file)));
}

function manifestOf(platform) {
  const { version, license, engines } = manifest;
  return {
    name: packageName(platform),
    version,
    description: `The engine of ${manifest.name} for ${platform}, and its built-in model. Installed by ${manifest.name}.`,
    license,
    ...restrictions(platform),
    engines,
    preferUnplugged: true,
    files: ['bin', 'nano.gguf', ...noticesOf(platform).map((file) => basename(file))],
  };
}

const readmeOf = (platform) => `# ${packageName(platform)}

The engine of ${manifest.name} for ${platform}, with every variant of its kernels, and the built-in model. It is an
optional dependency of ${manifest.name} and of no use alone: \`npm install --global ${manifest.name}\`.
`;

/** Definitions of CMake with which the package of another platform is built. */
function definitionsOf(platform) {
  const { fromSource } = platforms[platform];
  const libraries = fromSource === undefined ? ['SVC_LLAMA=prebuilt'] : ['SVC_LLAMA=source', ...fromSource];
  return [...libraries, 'SVC_BUILD_TESTS=ON'];
}

/**
 * Builds with the toolchain file of the platform. `definitions`: by default libllama's source with those of the platform,
 * or the libraries of its @node-llama-cpp package. Returns the folder of the native files.
 */
export async function crossBuild(
  platform,
  { targets = [], definitions = definitionsOf(platform), env = process.env } = {},
) {
  const folder = `build/${platform}`;
  const inputs = await nativeInputs();
  const facts = [...inputs.facts, targets, definitions];
  const outputs = [`${folder}/bin/svc.node`, `${folder}/bin/process.node`];
  const toolchain = `cmake/toolchains/${platform}`;
  const files = [`${toolchain}.cmake`, `${toolchain}.rules.cmake`];
  // The tests have inputs that are not those of the addon: the build system compares them.
  await unlessFresh(
    `build-${platform}`,
    { inputs: [...inputs.inputs, ...files, 'native/test'], facts, outputs },
    async () => {
      await requireTools();
      const headers = inRoot('node_modules/node-api-headers/include');
      const configure = [
        ...['-S', '.', '-B', folder],
        ...((await isInstalled('ninja')) ? ['-G', 'Ninja'] : []),
        `-DCMAKE_TOOLCHAIN_FILE=${inRoot(`${toolchain}.cmake`)}`,
        `-DCMAKE_JS_INC=${headers}`,
        ...definitions.map((each) => `-D${each}`),
      ];
      const title = `configuring the engine for ${platform}`;
      await configureFolder(folder, () => run(title, 'cmake', configure, { env }));
      const wanted = ['svc_addon', ...targets].flatMap((target) => ['--target', target]);
      const build = ['--build', folder, ...wanted, '--parallel', process.env.SVC_BUILD_JOBS ?? '2'];
      await run(`building the engine for ${platform}`, 'cmake', build, { env });
    },
  );
  return `${folder}/bin`;
}

/** Builds on the platform itself, with libllama. */
async function sourceBuild(platform) {
  const folder = `build/${platform}`;
  await requireTools();
  const { fromSource, macos } = platforms[platform];
  const oldest = macos === undefined ? [] : [`CMAKE_OSX_DEPLOYMENT_TARGET=${macos}`];
  const definitions = ['SVC_LLAMA=source', ...fromSource, ...oldest].map((each) => `--CD${each}`);
  const cmakeJs = inRoot('node_modules/cmake-js/bin/cmake-js');
  const configure = [cmakeJs, 'configure', '--out', folder, ...definitions];
  await configureFolder(folder, () => run('configuring the engine and libllama', process.execPath, configure));
  const build = ['--build', folder, '--target', 'svc_addon', '--parallel', String(availableParallelism())];
  await run('building the engine and libllama (half an hour)', 'cmake', build);
  return `${folder}/bin`;
}

/** Refuses a libllama built for this CPU, because it would crash on CPUs with fewer features. */
async function refuseOwnProcessorOnly() {
  const cache = await readFile(inRoot(addonFolder, 'CMakeCache.txt'), 'utf8');
  if (!/^SVC_LIBRARIES_IN_BIN:\w+=prebuilt /m.test(cache)) {
    throw new StepError(
      `${addonFolder} holds a libllama built for this CPU only. Install its @node-llama-cpp package, and build again ` +
        'without SVC_LLAMA=source.',
    );
  }
}

/** Strips symbols, except those that the dynamic linker needs. */
async function strip(folder, platform) {
  const { os, crossCompiler } = platforms[platform];
  const program = platform === host ? 'strip' : crossCompiler.replace(/g\+\+(-posix)?$/, 'strip');
  if (!(await isInstalled(program))) throw new StepError(`\`${program}\` (binutils) is not installed`);
  const files = (await readdir(folder)).map((name) => join(folder, name));
  await promisify(execFile)(program, [...(os === 'darwin' ? ['-x'] : ['--strip-unneeded']), ...files]);
  // The linker's signatures are those of the files before.
  if (os === 'darwin') await run('signing', 'codesign', ['--force', '--sign', '-', ...files]);
}

/**
 * Shortens the run path `$ORIGIN:` of the libraries of @node-llama-cpp to `$ORIGIN`: its empty second entry means the
 * current directory, from which no library may be loaded.
 */
async function trimRunPaths(folder) {
  for (const name of await readdir(folder)) {
    const bytes = await readFile(join(folder, name));
    const at = bytes.indexOf('\0$ORIGIN:\0');
    if (at === -1) continue;
    bytes[at + '\0$ORIGIN'.length] = 0;
    await writeFile(join(folder, name), bytes);
  }
}
