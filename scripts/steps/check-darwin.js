/** Checks that the native files of a macOS package find every library and symbol, and that macOS would load them. */
import { basename } from 'node:path';
import { readMachO } from './mach-o.js';
import { isNewer } from './versions.js';

const SYSTEM = /^\/(usr\/lib|System\/Library)\//;
/** Metal's kernels as source text in libggml-metal, which compiles them for the GPU that it finds. */
const KERNELS = '__DATA,__ggml_metallib';
/** Function that Node looks for in an addon. */
const ENTRY = '_napi_register_module_v1';

/**
 * Returns `{ problems, versions }`; `versions`: the oldest macOS on which all files are loaded. `node`: symbols of Node;
 * `oldest`: the version of macOS that the package states. What the libraries of the system offer is not checked: they
 * are part of macOS only.
 */
export async function checkDarwinFiles(paths, node, oldest) {
  const files = await readAll(paths);
  const problems = [];
  const versions = {};
  for (const [name, file] of files) {
    problems.push(...unloadable(file, oldest).map((problem) => `${name} ${problem}`));
    problems.push(...missingLibraries(file, files).map((problem) => `${name} ${problem}`));
    if (name.endsWith('.node') && !file.defined.has(ENTRY)) problems.push(`${name} does not export ${ENTRY}`);
    const lost = file.undefined.filter((symbol) => !isOffered(symbol, file, files, node));
    if (lost.length > 0)
      problems.push(`${name} needs ${lost.length} symbols that nothing defines: ${shown(lost[0])}, …`);
    if (versions.macOS === undefined || isNewer(file.minimum ?? '0', versions.macOS)) versions.macOS = file.minimum;
  }
  return { problems, versions };
}

/** Returns what is wrong with the backend for Metal: it is missing, or its kernels are not in it. */
export async function checkMetal(paths) {
  const path = paths.find((each) => /^libggml-metal\.(so|dylib)$/.test(basename(each)));
  if (path === undefined) return ['libggml-metal is missing'];
  const { needed, sections } = await readMachO(path);
  const problems = [];
  if (!needed.some((each) => each.includes('/Metal.framework/')))
    problems.push('libggml-metal does not need Metal.framework');
  if (!sections.get(KERNELS)) problems.push('libggml-metal has no kernels in it: build with GGML_METAL_EMBED_LIBRARY');
  return problems;
}

async function readAll(paths) {
  const files = new Map();
  for (const path of paths) files.set(basename(path), await readMachO(path));
  return files;
}

/** Reasons why macOS would not load the file whatever is beside it. */
function unloadable({ machine, system, minimum, signed }, oldest) {
  const problems = [];
  if (machine !== 'ARM64') problems.push(`is for ${machine}`);
  if (system !== 'macos') problems.push('does not state its oldest macOS');
  else if (isNewer(minimum, oldest)) problems.push(`needs macOS ${minimum}, which is newer than ${oldest}`);
  // arm64 executes no code without one; `codesign --sign -` makes one without a certificate.
  if (!signed) problems.push('has no code signature');
  return problems;
}

function missingLibraries({ needed, runPaths }, files) {
  const problems = [];
  const foreign = needed.filter((each) => !SYSTEM.test(each) && ownName(each, files) === undefined);
  if (foreign.length > 0) problems.push(`needs ${foreign.join(', ')}, which it may not find`);
  // A path of the machine that built it would be searched, too.
  const wanted = needed.some((each) => each.startsWith('@rpath/')) ? ['@loader_path'] : [];
  if (runPaths.some((each) => each !== '@loader_path') || runPaths.length < wanted.length)
    problems.push(`has the run paths ${runPaths.join(', ') || '(none)'}, not @loader_path`);
  return problems;
}

/** Returns the file of the package that an install name such as @rpath/libllama.dylib means. */
function ownName(installName, files) {
  const [, name] = /^@(?:rpath|loader_path)\/([^/]+)$/.exec(installName) ?? [];
  return files.has(name) ? name : undefined;
}

/** True if the library to which the symbol is bound exports it; of the system's libraries, true. */
function isOffered({ name, library }, { needed }, files, node) {
  // Names of C functions have a _ before them.
  if (library === null) return node.has(name.slice(1));
  const from = needed.filter((each) => isNamed(each, library));
  const own = from.map((each) => ownName(each, files)).filter((each) => each !== undefined);
  return own.some((each) => files.get(each).defined.has(name)) || from.some((each) => SYSTEM.test(each));
}

const shown = ({ name, library }) => (library === null ? name : `${name} of ${library}`);

/** True if nm would write the install name as `library`: without its folder, and without what follows a dot. */
function isNamed(installName, library) {
  const file = basename(installName);
  return file === library || file.startsWith(`${library}.`);
}
