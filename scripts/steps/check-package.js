/** Checks a tarball before it is published: what is in it, what it needs, and how large it is. */
import { mkdtemp, readFile, rm, stat, writeFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { basename, join } from 'node:path';
import { checkDarwinFiles, checkMetal } from './check-darwin.js';
import { checkLinuxFiles } from './check-linux.js';
import { checkWindowsFiles } from './check-windows.js';
import { LICENCES } from './dist.js';
import { noticesOf } from './platform-package.js';
import { manifest, packageName, platforms, restrictions, RUNTIME, tarballName } from './platforms.js';
import { inRoot } from './root.js';
import { StepError } from './run.js';
import { readTarball } from './tarball.js';

const MB = 1e6;
/** Most megabytes of a tarball. */
const LARGEST = { runtime: 1.5, platform: 20 };
const RUN_BY_NPM = ['preinstall', 'install', 'postinstall', 'prepare', 'preprepare', 'postprepare'];
const NATIVE = /\.(node|so|dylib|dll)$/;

/**
 * Returns `{ name, packed, unpacked, files, versions }`, sizes in bytes; `versions`: the newest of each library of the
 * system that it needs. Throws StepError with everything that is wrong.
 */
export async function checkTarball(path) {
  const files = await readTarball(path);
  const published = JSON.parse(files.get('package.json')?.bytes.toString() ?? '{}');
  const packed = (await stat(path)).size;
  const platform = Object.keys(platforms).find((each) => packageName(each) === published.name);
  const problems = [];
  const expect = (holds, problem) => holds || problems.push(problem);

  expect(basename(path) === tarballName(published.name), `the file is not named ${tarballName(published.name)}`);
  expect(published.version === manifest.version, `version ${published.version}, not ${manifest.version}`);
  expect(published.license === 'MIT', `license ${published.license}`);
  const engines = JSON.stringify(published.engines);
  expect(engines === JSON.stringify(manifest.engines), `engines ${engines}`);
  const scripts = RUN_BY_NPM.filter((name) => published.scripts?.[name] !== undefined);
  expect(scripts.length === 0, `npm would run its scripts ${scripts.join(', ')}`);
  for (const name of ['LICENSE', 'THIRD_PARTY_NOTICES.md']) {
    expect(files.get(name)?.bytes.equals(await readFile(inRoot(name))), `${name} is not that of the repository`);
  }
  const most = platform === undefined ? LARGEST.runtime : LARGEST.platform;
  expect(packed < most * MB, `${(packed / MB).toFixed(1)} MB packed, more than ${most} MB`);

  let versions = {};
  if (platform !== undefined) versions = await checkPlatform(platform, { files, published, problems, expect });
  else if (published.name === RUNTIME) await checkRuntime({ files, published, expect });
  else problems.push(`unknown package ${published.name}`);

  if (problems.length > 0) throw new StepError(`${basename(path)}:\n  ${problems.join('\n  ')}`);
  const unpacked = [...files.values()].reduce((total, { bytes }) => total + bytes.length, 0);
  return { name: published.name, platform, packed, unpacked, files: files.size, versions };
}

/** One line with the sizes. */
export function describe({ packed, unpacked, files, versions }) {
  const needs = Object.entries(versions).map(([name, version]) => `${name} ${version}`);
  const sizes = `${(packed / MB).toFixed(2)} MB packed, ${(unpacked / MB).toFixed(1)} MB unpacked, ${files} files`;
  return needs.length === 0 ? sizes : `${sizes}; needs ${needs.join(', ')}`;
}

async function checkRuntime({ files, published, expect }) {
  const names = Object.keys(platforms).map(packageName);
  const wanted = Object.fromEntries(names.map((name) => [name, manifest.version]));
  expect(JSON.stringify(published.optionalDependencies) === JSON.stringify(wanted), 'wrong optionalDependencies');
  const native = [...files.keys()].filter((name) => NATIVE.test(name) || name.endsWith('.gguf'));
  expect(published.dependencies === undefined, 'it has dependencies');
  expect(native.length === 0, `native files: ${native.join(', ')}`);
  const needed = ['bin/svc.cjs', 'dist/cli/main.cjs', 'dist/svc.1', `dist/${LICENCES}`];
  for (const name of needed) expect(files.has(name), `${name} is missing`);
  const foreign = [...files.keys()].find((name) => /(^|\/)(src|test|native|node_modules)\//.test(name));
  expect(foreign === undefined, `it contains ${foreign}`);
}

async function checkPlatform(platform, { files, published, problems, expect }) {
  for (const [field, value] of Object.entries(restrictions(platform))) {
    expect(JSON.stringify(published[field]) === JSON.stringify(value), `${field} is ${published[field]}`);
  }
  const native = [...files.keys()].filter((name) => NATIVE.test(name));
  const other = [...files.keys()].filter((name) => !native.includes(name)).sort();
  const expected = [...noticesOf(platform).map((name) => basename(name)), 'README.md', 'nano.gguf', 'package.json'];
  expect(JSON.stringify(other) === JSON.stringify(expected.sort()), `it contains ${other.join(', ')}`);
  for (const name of ['svc.node', 'process.node']) expect(native.includes(`bin/${name}`), `bin/${name} is missing`);
  // Two have the tag of llama.cpp in their names: another one of an earlier build is a second file.
  for (const library of ['llama', 'llama-common', 'ggml', 'ggml-base']) {
    const found = native.filter((name) => new RegExp(`^bin/(lib)?${library}\\.`).test(name));
    expect(found.length === 1, `${found.length} files of ${library}: ${found.join(', ')}`);
  }
  const variants = native.filter((name) => /ggml-cpu/.test(name));
  expect(
    variants.length > (platforms[platform].os === 'darwin' ? 0 : 3),
    `${variants.length} variants of ggml's kernels`,
  );
  for (const name of native) expect(isOf(platform, files.get(name).bytes), `${name} is not for ${platform}`);

  const folder = await mkdtemp(join(tmpdir(), 'svc-package-'));
  try {
    const paths = native.map((name) => join(folder, basename(name)));
    for (const [index, name] of native.entries()) await writeFile(paths[index], files.get(name).bytes);
    const result = await checkSymbols(platform, paths);
    problems.push(...result.problems);
    return result.versions;
  } finally {
    await rm(folder, { recursive: true });
  }
}

async function checkSymbols(platform, paths) {
  const { os, macos } = platforms[platform];
  if (os === 'linux') return await checkLinuxFiles(platform, paths, nodeSymbols());
  if (os === 'win32') return { problems: await checkWindowsFiles(paths), versions: {} };
  const { problems, versions } = await checkDarwinFiles(paths, nodeSymbols(), macos);
  return { problems: [...problems, ...(await checkMetal(paths))], versions };
}

/** Functions of Node-API 8, which every supported Node offers. */
export function nodeSymbols() {
  const { symbols } = createRequire(import.meta.url)('node-api-headers');
  const { js_native_api_symbols: js, node_api_symbols: node } = symbols.v8;
  return new Set([...js, ...node]);
}

/** True if the file's header has the format and the processor of the platform. */
function isOf(platform, bytes) {
  const { os, cpu } = platforms[platform];
  if (os === 'linux')
    return bytes.readUInt32BE(0) === 0x7f454c46 && bytes.readUInt16LE(18) === { x64: 62, arm64: 183 }[cpu];
  if (os === 'darwin') return bytes.readUInt32LE(0) === 0xfeedfacf && bytes.readUInt32LE(4) === 0x0100000c;
  const header = bytes.readUInt32LE(0x3c);
  return bytes.readUInt32BE(header) === 0x50450000 && bytes.readUInt16LE(header + 4) === 0x8664;
}
