/** Build folders of CMake: which are configured anew. */
import { existsSync } from 'node:fs';
import { mkdir, mkdtemp, rename, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join, relative } from 'node:path';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { nativeInputs } from '../../scripts/steps/addon.js';
import { configureFolder } from '../../scripts/steps/cmake.js';
import { run, StepError } from '../../scripts/steps/run.js';
import { BUILT_ON_LINUX, requireTools } from '../../scripts/steps/tools.js';

const ROOT = join(import.meta.dirname, '..', '..');

interface World {
  dir: string;
  /** The build folder, as steps name it. */
  folder: string;
  /** A file of an earlier build in it. */
  object: string;
  /** Configures `times`: 0 at first. */
  configure: () => Promise<void>;
  times: number;
  cxx: string | undefined;
}
const test = suite<World>('build folders');

test.before.each(async (world) => {
  world.dir = await mkdtemp(join(tmpdir(), 'svc-cmake-'));
  world.folder = relative(ROOT, join(world.dir, 'build'));
  world.object = join(world.dir, 'build', 'object.o');
  world.times = 0;
  world.configure = async () => {
    world.times += 1;
    await mkdir(join(world.dir, 'build'), { recursive: true });
  };
  world.cxx = process.env['CXX'];
  delete process.env['CXX'];
});
test.after.each(async ({ dir, cxx }) => {
  if (cxx === undefined) delete process.env['CXX'];
  else process.env['CXX'] = cxx;
  await rm(dir, { recursive: true });
});

test('a folder that was moved is configured anew', async (world) => {
  const { dir, folder, object } = world;
  await writeFile(join(dir, 'CMakeLists.txt'), 'cmake_minimum_required(VERSION 3.21)\nproject(test NONE)\n');
  const configure = (name: string) => () => run('configuring', 'cmake', ['-S', dir, '-B', join(dir, name)]);
  const old = relative(ROOT, join(dir, 'old'));
  await configureFolder(old, configure('old'));
  await writeFile(join(dir, 'old', 'object.o'), '');
  await configureFolder(old, configure('old'));
  assert.ok(existsSync(join(dir, 'old', 'object.o')));
  await rename(join(dir, 'old'), join(dir, 'build'));
  await configureFolder(folder, configure('build'));
  assert.not(existsSync(object));
});

test('a folder of another generator is configured anew, and no other error removes one', async (world) => {
  const { folder, configure, object } = world;
  await configureFolder(folder, configure);
  await writeFile(object, '');
  const failing = (message: string) => async (): Promise<void> => {
    if (existsSync(object)) throw new StepError(message);
    await configure();
  };
  const error = await configureFolder(folder, failing('no compiler')).catch((reason: unknown) => reason);
  assert.is((error as Error).message, 'no compiler');
  assert.ok(existsSync(object));
  const another = 'CMake Error: Error: generator : Ninja\nDoes not match the generator used previously: Unix Makefiles';
  await configureFolder(folder, failing(another));
  assert.not(existsSync(object));
  assert.is(world.times, 2);
});

test('another compiler gets an empty folder, and the same one does not', async ({ folder, configure, object }) => {
  await configureFolder(folder, configure);
  for (const cxx of ['g++-12', undefined]) {
    await writeFile(object, '');
    if (cxx === undefined) delete process.env['CXX'];
    else process.env['CXX'] = cxx;
    await configureFolder(folder, configure);
    assert.not(existsSync(object), cxx);
    await writeFile(object, '');
    await configureFolder(folder, configure);
    assert.ok(existsSync(object), cxx);
  }
});

test('the place of the checkout and the compiler are facts of every native build', async () => {
  const { facts } = await nativeInputs();
  assert.ok(facts.includes(join(ROOT)));
  process.env['CXX'] = 'g++-12';
  assert.not.equal((await nativeInputs()).facts, facts);
});

test('the platform is that of the programs, not that of the kernel', async ({ dir }) => {
  const script = join(dir, 'platform.cmake');
  const file = join(ROOT, 'cmake', 'platform.cmake');
  await writeFile(
    script,
    `include("${file}")\nexecute_process(COMMAND "\${CMAKE_COMMAND}" -E echo \${SVC_PLATFORM})\n`,
  );
  const platforms = [];
  for (const [processor, bytes] of [
    ['x86_64', 8],
    ['x86_64', 4],
    ['aarch64', 8],
    ['aarch64', 4],
    ['armv7l', 4],
    ['riscv64', 8],
  ] as const) {
    const definitions = [`-DCMAKE_SYSTEM_PROCESSOR=${processor}`, `-DCMAKE_SIZEOF_VOID_P=${String(bytes)}`];
    platforms.push((await run('the platform', 'cmake', [...definitions, '-P', script])).trim().replace(/^\w+-/, ''));
  }
  assert.equal(platforms, ['x64', 'ia32', 'arm64', 'arm', 'arm', 'riscv64']);
});

test('on Windows a native build says where that is possible', async () => {
  const { platform } = process;
  Object.defineProperty(process, 'platform', { value: 'win32' });
  const error = await requireTools().catch((reason: unknown) => reason);
  Object.defineProperty(process, 'platform', { value: platform });
  assert.instance(error, StepError);
  assert.is((error as Error).message, BUILT_ON_LINUX);
});

test.run();
