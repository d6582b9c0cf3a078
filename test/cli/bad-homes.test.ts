/**
 * With an SVC_HOME that svc cannot use, every command exits with 73 or 78, one sentence and a hint, after little more
 * work than `svc version`. None hangs, spins or prints a stack trace.
 */
import { execFileSync } from 'node:child_process';
import {
  chmodSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { loadSpecs } from '../../src/cli/commands.ts';
import type { DoctorRecord } from '../../src/protocol/doctor.ts';
import { spawnSvc, svc, type SvcResult } from '../support/svc.ts';

const COMMANDS = await loadSpecs();
const scratch = mkdtempSync(join(tmpdir(), 'svc-bad-homes-'));
const mounted: string[] = [];
test.after(() => {
  for (const directory of mounted) execFileSync('umount', [directory]);
  rmSync(scratch, { recursive: true, force: true });
});

/** Time limit of a command; one that hangs is killed and fails its test. */
const TIMEOUT_MS = 30_000;
/** CPU time that a refused command may take, in that of `svc version`, a quarter of a second on a slow machine. */
const MOST_VERSIONS = 4;
/** Commands that use no file of the home. */
const WITHOUT_HOME = ['version', 'completion'];
/** Commands not run here, because they change this machine or contact others. */
const NOT_RUN = ['model search', 'service install', 'service uninstall'];
/** Reports the problem as a failed check. */
const DOCTOR = 'doctor';

/** Arguments of commands that need some. */
const ARGUMENTS: Readonly<Record<string, readonly string[]>> = {
  run: ['hi'],
  'model add': [join(scratch, 'no.gguf')],
  'model create': ['x', '-f', join(scratch, 'Modelfile')],
  'model quantize': ['builtin', 'Q4_0'],
  'model pull': ['hf:a/b'],
  'config get': ['http.port'],
  'config set': ['http.port', '1'],
  'config unset': ['http.port'],
  'key add': ['me'],
  'key rm': ['me'],
  // Without --print it looks for the agent's program first.
  launch: ['claude', '--print'],
  'provider set': ['openai', '--default-model', 'm'],
};

function commandLine(name: string): string[] {
  const given = ARGUMENTS[name];
  const needed = (COMMANDS[name as keyof typeof COMMANDS].arguments ?? [])
    .filter(({ required }) => required)
    .map(({ choices }) => choices?.[0] ?? 'x');
  return [...name.split(' '), ...(given ?? needed)];
}

/** Kinds of homes that no command can use. */
const UNUSABLE: Readonly<Record<string, (home: string) => string>> = {
  'a file': (home) => {
    writeFileSync(home, '');
    return home;
  },
  'below a file': (home) => {
    writeFileSync(home, '');
    return join(home, 'deep', 'home');
  },
  'a dangling link': (home) => {
    symlinkSync(`${home}-nothing`, home);
    return home;
  },
  'a link to itself': (home) => {
    symlinkSync(home, home);
    return home;
  },
  ...(existsSync('/proc/self') ? { 'on procfs': () => '/proc/svc-home/deep', 'procfs itself': () => '/proc' } : {}),
};

writeFileSync(join(scratch, 'Modelfile'), 'FROM builtin\n');

let count = 0;
function plant(kind: string): string {
  return UNUSABLE[kind]?.(join(scratch, String(count++))) ?? '';
}

async function inHome(dir: string, name: string): Promise<SvcResult> {
  const home = { dir, env: { SVC_HOME: dir, SVC_HTTP_ADDR: '127.0.0.1:0', SVC_GRPC_ADDR: '127.0.0.1:0' } };
  return await svc(commandLine(name), { home: home as never, timeoutMs: TIMEOUT_MS });
}

/** Runs a command, alone; `ticks`: its CPU time and that of its own children, 0 where the kernel does not report it. */
async function measured(dir: string, name: string): Promise<{ result: SvcResult; ticks: number }> {
  const before = childrenTicks();
  const result = await inHome(dir, name);
  return { result, ticks: childrenTicks() - before };
}

/** CPU time of all child processes that have ended, in clock ticks. */
function childrenTicks(): number {
  if (!existsSync('/proc/self/stat')) return 0;
  const fields = readFileSync('/proc/self/stat', 'latin1')
    .replace(/^.*\) /s, '')
    .split(' ');
  return Number(fields[13]) + Number(fields[14]);
}

let versionTicks = 0;
test.before(async () => {
  for (let i = 0; i < 3; i += 1)
    versionTicks = Math.max(versionTicks, (await measured(join(scratch, 'good'), 'version')).ticks);
});

/** Asserts that a command failed with one sentence and a hint. */
function assertRefused({ code, signal, stderr }: SvcResult, what: string): void {
  assert.ok(code === 73 || code === 78, `${what}: exit ${String(code)} ${String(signal)}\n${stderr}`);
  assert.match(stderr, /^svc: [^\n]+\nhint: [^\n]+\n$/, what);
}

for (const kind of Object.keys(UNUSABLE)) {
  test(`a home that is ${kind}`, async () => {
    const dir = plant(kind);
    // All commands with the two kinds that differ most; a few typical commands with the others.
    const names = ['a file', 'on procfs'].includes(kind)
      ? Object.keys(COMMANDS).filter((name) => !NOT_RUN.includes(name))
      : ['start', 'serve', 'status', 'run', 'doctor', 'config set', 'model list'];
    for (const name of names) {
      const what = `svc ${name} in a home that is ${kind}`;
      const { result, ticks } = await measured(dir, name);
      // Doctor measures the speed of the devices.
      if (name !== DOCTOR)
        assert.ok(ticks <= MOST_VERSIONS * versionTicks, `${what}: ${String(ticks)} of ${String(versionTicks)} ticks`);
      if (WITHOUT_HOME.includes(name)) assert.is(result.code, 0, what);
      else if (name === DOCTOR) assert.is(result.code, 1, `${what}: ${result.stderr}`);
      else assertRefused(result, what);
    }
  });
}

test('doctor names the path in its failed check', async () => {
  for (const kind of Object.keys(UNUSABLE)) {
    const dir = plant(kind);
    const home = { dir, env: { SVC_HOME: dir } };
    const { code, stdout } = await svc(['doctor', '--json', '--offline'], { home: home as never });
    const { ok, checks } = JSON.parse(stdout) as DoctorRecord;
    assert.is(code, 1, kind);
    assert.is(ok, false);
    const paths = checks.find(({ name }) => name === 'paths');
    assert.is(paths?.status, 'fail', kind);
    assert.ok(paths?.detail?.includes(dir), `${kind}: ${String(paths?.detail)}`);
  }
});

/** On a full disk a daemon still starts and serves, without a log: starting needs no disk space. */
const FULL = 'is full';

/** Kinds of homes that can be read but not written: commands that write are refused. */
const UNWRITABLE: Readonly<Record<string, (home: string) => boolean>> = {
  [FULL]: (home) => mount(home, 'size=64k') && fill(home),
  'is read-only': (home) => mount(home, 'size=64k') && remount(home),
  'has no write permission': (home) => {
    mkdirSync(home);
    mkdirSync(join(home, 'state'));
    chmodSync(join(home, 'state'), 0o500);
    chmodSync(home, 0o500);
    return process.getuid?.() !== 0;
  },
};

function mount(home: string, options: string): boolean {
  mkdirSync(home);
  try {
    execFileSync('mount', ['-t', 'tmpfs', '-o', options, 'tmpfs', home], { stdio: 'pipe' });
  } catch {
    return false;
  }
  mounted.push(home);
  return true;
}

function fill(home: string): true {
  try {
    writeFileSync(join(home, 'filler'), Buffer.alloc(1024 * 1024));
  } catch {
    // Expected: the file system is full now.
  }
  return true;
}

function remount(home: string): true {
  mkdirSync(join(home, 'state'));
  execFileSync('mount', ['-o', 'remount,ro', home], { stdio: 'pipe' });
  return true;
}

for (const [kind, make] of Object.entries(UNWRITABLE)) {
  test(`a home that ${kind}`, async () => {
    const dir = join(scratch, String(count++));
    if (!make(dir)) {
      console.log(`skipped: this user cannot make a home that ${kind}`);
      return;
    }
    for (const name of ['config set', 'key add', 'provider set', ...(kind === FULL ? [] : ['start', 'serve', 'run'])]) {
      assertLast(await inHome(dir, name), `svc ${name} in a home that ${kind}`);
    }
    for (const name of ['status', 'model list', 'config show', 'logs', 'usage']) {
      const { code, stderr } = await inHome(dir, name);
      assert.ok(code === 0 || (name === 'status' && code === 3), `svc ${name}: ${String(code)} ${stderr}`);
    }
    assert.is((await inHome(dir, 'doctor')).code, 1);
  });
}

/** As `assertRefused`, after the line by which `run` announces that it starts the daemon. */
function assertLast(result: SvcResult, what: string): void {
  assertRefused({ ...result, stderr: result.stderr.replace('svc: starting the daemon\n', '') }, what);
}

test('serve ends on SIGTERM while it starts in an unusable home', async () => {
  for (const kind of Object.keys(UNUSABLE)) {
    const dir = plant(kind);
    const running = spawnSvc(['serve'], { home: { dir, env: { SVC_HOME: dir } } as never, timeoutMs: TIMEOUT_MS });
    running.child.kill('SIGTERM');
    await running.result;
  }
});

test.run();
