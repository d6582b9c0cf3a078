/** `.ci/run` with stand-ins for all that it starts: which parts run at which commit, and how the output ends. */
import { execFile } from 'node:child_process';
import { chmod, cp, mkdir, mkdtemp, readFile, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';

const SCRIPT = join(import.meta.dirname, '..', '..', '.ci', 'run');
/** They write their command line to a file. */
const PROGRAMS: Readonly<Record<string, string>> = {
  git: 'echo "$HASH"',
  id: 'echo 0',
  npm: 'echo "ok   test/x.test.ts (1 passed, 2 skipped, 0.1 s)"; echo "3 passed, 0 failed"',
  node: 'echo "skipped: not possible here"; echo "$ENDS_WITH"',
  'apt-get': 'case "$*" in *kubernetes-client*) exit 100 ;; esac',
  'dpkg-deb': 'exit 1',
};
/** What else is on its path: none of the tools that it installs. */
const SYSTEM = ['bash', 'dirname', 'grep', 'mktemp', 'rm', 'tail', 'tar', 'tee'];

interface World {
  dir: string;
}
interface Run {
  readonly lines: readonly string[];
  /** Command lines of what was started. */
  readonly started: readonly string[];
  readonly code: number;
}
const test = suite<World>('.ci/run');

test.before.each(async (world) => {
  world.dir = await mkdtemp(join(tmpdir(), 'svc-ci-'));
  for (const name of ['.ci', 'bin']) await mkdir(join(world.dir, name));
  await cp(SCRIPT, join(world.dir, '.ci', 'run'));
  for (const [name, body] of Object.entries(PROGRAMS)) {
    const path = join(world.dir, 'bin', name);
    await writeFile(path, `#!/bin/sh\necho "${name} $*" >>"$STARTED"\n${body}\n`);
    await chmod(path, 0o755);
  }
  for (const name of SYSTEM) {
    const { stdout } = await promisify(execFile)('sh', ['-c', `command -v ${name}`]);
    await symlink(stdout.trim(), join(world.dir, 'bin', name));
  }
});
test.after.each(async ({ dir }) => {
  await rm(dir, { recursive: true });
});

async function runAt(dir: string, firstDigits: string, endsWith = '5 passed, 0 failed'): Promise<Run> {
  const started = join(dir, 'started');
  await writeFile(started, '');
  const env = {
    ...{ PATH: join(dir, 'bin'), TMPDIR: dir, STARTED: started },
    ...{ HASH: firstDigits.padEnd(40, 'a'), ENDS_WITH: endsWith },
  };
  const { stdout, code } = await promisify(execFile)(join(dir, 'bin', 'bash'), [join(dir, '.ci', 'run')], { env }).then(
    (result) => ({ ...result, code: 0 }),
    (error: unknown) => error as { stdout: string; code: number },
  );
  return { lines: stdout.trimEnd().split('\n'), started: (await readFile(started, 'utf8')).split('\n'), code };
}

if (process.platform === 'linux') {
  test('each commit runs one of the four other builds of the engine', async ({ dir }) => {
    const programs = [];
    for (const digits of ['00000000', '00000001', '0000000e', 'ffffffff']) {
      const { started } = await runAt(dir, digits);
      programs.push(started.filter((line) => line.startsWith('node ')).join());
    }
    assert.equal(programs, [
      'node scripts/sanitize.js address --part 1/2',
      'node scripts/sanitize.js address --part 2/2',
      'node scripts/sanitize.js thread',
      'node scripts/qemu.js --if-possible',
    ]);
  });

  test('what was skipped stands at the end, and the last line is the sum', async ({ dir }) => {
    const { lines, code } = await runAt(dir, '00000003');
    assert.is(code, 0);
    assert.is(lines.at(-1), '14 passed, 0 failed');
    const end = lines.slice(lines.findLastIndex((line) => line.startsWith('== a third of chaos')) + 1).join('\n');
    assert.match(end, '== skipped: npm test\nok   test/x.test.ts (1 passed, 2 skipped, 0.1 s)\n');
    assert.match(end, '== skipped: arm64 under qemu\nskipped: not possible here\n');
  });

  test('a part that ends without its sums has failed', async ({ dir }) => {
    const { lines, code } = await runAt(dir, '00000002', 'killed');
    assert.is(code, 1);
    assert.is(lines.at(-1), '9 passed, 1 failed');
  });

  test('a package that apt does not know keeps out no other', async ({ dir }) => {
    const { lines, started } = await runAt(dir, '00000003');
    assert.ok(lines.includes('could not install kubernetes-client: going on without'));
    const [together, ...alone] = started.filter((line) => line.startsWith('apt-get install '));
    const words = together?.split(' ') ?? [];
    const packages = words.slice(words.indexOf('-y') + 1);
    assert.ok(packages.includes('clang-tidy') && packages.includes('qemu-user-static'));
    assert.equal(
      alone,
      packages.map((name) => `apt-get install -qq -y ${name}`),
    );
  });

  test('without a commit it fails at once', async ({ dir }) => {
    await writeFile(join(dir, 'bin', 'git'), '#!/bin/sh\necho "fatal: not a git repository" >&2\nexit 128\n');
    const { started, code } = await runAt(dir, '');
    assert.is(code, 1);
    assert.equal(started, ['']);
  });
}

test.run();
