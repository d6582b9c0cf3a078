/** Builds svc.node and process.node, with the libraries that they need next to them. */
import { availableParallelism } from 'node:os';
import { existsSync } from 'node:fs';
import { readdir, readFile } from 'node:fs/promises';
import { configureFolder, readOnce } from './cmake.js';
import { inRoot, root } from './root.js';
import { lockedPackage } from './packages.js';
import { run } from './run.js';
import { requireTools } from './tools.js';
import { unlessFresh } from './unless-fresh.js';

/** Origin of libllama: `prebuilt`, `source`, or null to let CMake choose (see cmake/llama.cmake). */
export const llama = process.env.SVC_LLAMA || null;

/** The definition for CMake; without a choice empty, because CMake keeps an earlier one. */
export const chosenLlama = `-DSVC_LLAMA=${llama ?? ''}`;

/**
 * Build folder shared by the addon and the engine's plain tests, so that the engine is compiled once. An explicit
 * `source` has its own folder, so that both builds can coexist.
 */
export const addonFolder = llama === 'source' ? 'build/addon-source' : 'build/addon';
const addonFile = `${addonFolder}/bin/svc.node`;

/** Environment variables for a program that must use this build; the default build is found without them. */
export const addonVariables = llama === 'source' ? { SVC_ADDON: inRoot(addonFile) } : {};

export async function buildAddon() {
  const outputs = [addonFile, `${addonFolder}/bin/process.node`, `${addonFolder}/CTestTestfile.cmake`];
  await unlessFresh(addonFolder.replace('/', '-'), { ...(await nativeInputs()), outputs }, async () => {
    await requireTools();
    await configure(addonFolder);
    const time =
      llama === 'source' ? 'with libllama from source, about 10 minutes on 2 cores' : 'about 2 minutes on 2 cores';
    const parallel = ['--parallel', String(availableParallelism())];
    await run(`building the engine (${time})`, 'cmake', ['--build', addonFolder, '--target', 'svc_addon', ...parallel]);
  });
}

/**
 * Writes how each file of the engine is compiled alone, for programs that read files one by one. Returns the folder of
 * compile_commands.json.
 */
export async function writeCompileCommands() {
  const folder = 'build/compile-commands';
  const outputs = [`${folder}/compile_commands.json`];
  await unlessFresh('compile-commands', { ...(await nativeInputs()), outputs }, async () => {
    await requireTools();
    await configure(folder, '-DSVC_UNITY_BUILD=OFF');
  });
  return folder;
}

/** Configures with cmake-js, which knows the location of the Node-API headers. */
async function configure(folder, ...more) {
  const flags = process.env.CXXFLAGS;
  const definitions = [
    ...['-DSVC_BUILD_TESTS=ON', chosenLlama, ...more],
    // cmake-js sets the variable itself, to this one flag, so CMake does not read the environment.
    ...(flags ? [`-DCMAKE_CXX_FLAGS=-DBUILDING_NODE_EXTENSION ${flags}`] : []),
  ];
  const cmakeJs = 'node_modules/cmake-js/bin/cmake-js';
  await configureFolder(folder, () =>
    run('configuring the engine', process.execPath, [cmakeJs, 'configure', '--out', folder, '--', ...definitions]),
  );
}

/** Inputs of every native build, and the version that it embeds. */
export async function nativeInputs() {
  const { version } = JSON.parse(await readFile(inRoot('package.json'), 'utf8'));
  const packages = ['node-llama-cpp', 'node-addon-api', 'node-api-headers', 'cmake-js'];
  return {
    inputs: [
      'CMakeLists.txt',
      ...(await cmakeFiles()),
      'native/addon.cc',
      'native/binding',
      'native/engine',
      'native/kernels',
      'native/process',
    ],
    facts: [
      version,
      llama,
      process.arch,
      // A build folder has absolute paths: one that was moved or copied is that of another checkout.
      root,
      readOnce(),
      await prebuiltLlamas(),
      ...(await Promise.all(packages.map(lockedPackage))),
    ],
  };
}

/** Names of the installed packages that have a libllama. */
async function prebuiltLlamas() {
  const scope = inRoot('node_modules/@node-llama-cpp');
  const names = await readdir(scope).catch(() => []);
  return names.filter((name) => existsSync(`${scope}/${name}/bins`)).sort();
}

/** Without the folder of toolchain files, which only builds for other platforms read. */
async function cmakeFiles() {
  const entries = await readdir(inRoot('cmake'), { withFileTypes: true });
  return entries.flatMap((entry) => (entry.isFile() ? [`cmake/${entry.name}`] : [])).sort();
}
