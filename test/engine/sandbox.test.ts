/** Hostile code in a real engine process: its attacks fail, and the engine keeps working. */
import { execFileSync, spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, readdirSync, readFileSync, statSync, utimesSync, writeFileSync } from 'node:fs';
import { getPriority } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { judge } from '../../src/cli/commands/doctor/sandbox-check.ts';
import { encodeFrame, FrameDecoder, FROM_ENGINE } from '../../src/engine/frames.ts';
import type { FromEngine, ToEngine } from '../../src/engine/messages.ts';
import { missingParts } from '../../src/engine/sandbox.ts';
import { spawnEngine } from '../../src/engine/spawn.ts';
import { trySandbox } from '../../src/engine/try-sandbox.ts';
import { spawnDaemon, type DaemonProcess } from '../support/daemon.ts';
import { makeHome, type Home } from '../support/home.ts';
import { modelPath } from '../support/native-engine.ts';
import { unless } from '../support/skip.ts';
import { waitFor } from '../support/wait.ts';

const ENTRY = fileURLToPath(new URL('./hostile/engine.ts', import.meta.url));
const SOURCE = fileURLToPath(new URL('./hostile/hostile.c', import.meta.url));
const isRoot = process.getuid?.() === 0;
const NO_COMPILER = spawnSync('cc', ['--version']).error !== undefined;

interface Context {
  home: Home;
}

const test = suite<Context>('sandbox');
test.before.each(async (context) => {
  context.home = await makeHome();
});
test.after.each(async ({ home }) => {
  await home.remove();
});

interface EngineOptions {
  readonly entry?: string;
  readonly env?: Readonly<Record<string, string>>;
}

/** Starts a single engine process, driven by frames. */
async function startEngine({ env = {}, ...options }: EngineOptions = {}) {
  Object.assign(process.env, env);
  const child = await spawnEngine(options);
  for (const name of Object.keys(env)) Reflect.deleteProperty(process.env, name);
  const frames = new FrameDecoder<FromEngine>(FROM_ENGINE);
  const received: FromEngine[] = [];
  let output = '';
  child.stdout.setEncoding('utf8').on('data', (text: string) => (output += text));
  child.stderr.pipe(process.stderr);
  child.pipe.on('error', () => undefined);
  child.pipe.on('data', (chunk: Buffer) => received.push(...frames.decode(chunk)));
  const send = (message: ToEngine): void => void child.pipe.write(encodeFrame(message));
  const ofType = <Type extends FromEngine['type']>(type: Type) =>
    received.filter((message): message is Extract<FromEngine, { type: Type }> => message.type === type);
  return {
    ...child,
    send,
    ofType,
    output: () => output,
    load: async (options: Extract<ToEngine, { type: 'load' }>['options'] = {}) => {
      const settings = { context_length: 4096, max_sequences: 4, threads: 1, ...options };
      send({ type: 'load', model: 'tiny', path: modelPath('tiny-llama'), options: settings, parentPid: process.pid });
      await waitFor('the load', () => ofType('loaded').length + ofType('failed').length > 0);
      assert.equal(ofType('failed'), []);
    },
    answer: async (id: number, prompt: string) => {
      send({ type: 'generate', request: { id, prompt, max_tokens: 4, sampling: { temperature: 0 } } });
      const finish = () =>
        ofType('step').flatMap(({ outputs }) => outputs.find((each) => each.id === id)?.finish ?? []);
      await waitFor('the answer', () => finish().length > 0);
      return finish()[0];
    },
  };
}

const PROMPT = 'The quick brown fox jumps over the lazy dog. '.repeat(20);

/** Name of the errno, or `none`, by thread and attack. */
function parse(output: string): Map<string, string> {
  const lines = output.trim().split('\n');
  return new Map(
    lines.map((line): [string, string] => [line.slice(0, line.lastIndexOf(' ')), line.split(' ')[2] ?? '']),
  );
}

function statusOfThreads(pid: number): string[] {
  return readdirSync(`/proc/${String(pid)}/task`).map((thread) =>
    readFileSync(`/proc/${String(pid)}/task/${thread}/status`, 'utf8'),
  );
}

function compile(home: Home): string {
  const addon = join(home.dir, 'hostile.node');
  execFileSync('cc', ['-shared', '-fPIC', '-O1', '-o', addon, SOURCE]);
  return addon;
}

/** A saved prompt of another model. */
const NEIGHBOUR = 'cache/prefixes/neighbour/saved.prefix';

/** Creates the files that the attacks try to read. */
function plant({ dir }: Home): void {
  for (const folder of ['config', 'data', 'cache/prefixes/own', 'cache/prefixes/neighbour'])
    mkdirSync(join(dir, folder), { recursive: true, mode: 0o700 });
  for (const file of ['data/credentials.json', 'config/keys.json', 'note.txt', NEIGHBOUR])
    writeFileSync(join(dir, file), '{}', { mode: 0o600 });
}

async function withDaemon(home: Home, body: (daemon: DaemonProcess, port: number) => Promise<void>): Promise<void> {
  const daemon = await spawnDaemon(home).answering();
  try {
    const port = async (): Promise<number> => Number((await daemon.client.status()).http?.split(':').at(-1));
    await body(daemon, await waitFor('the HTTP listener', async () => ((await port()) > 0 ? port() : null)));
  } finally {
    daemon.kill('SIGCONT');
    daemon.kill('SIGKILL');
    await daemon.exit;
  }
}

if (process.platform === 'linux' && !NO_COMPILER) {
  test('all attacks of hostile code in an engine fail, and the engine keeps working', async ({ home }) => {
    const addon = compile(home);
    await withDaemon(home, async (daemon, tcpPort) => {
      plant(home);
      const prefixes = {
        prefix_folder: join(home.dir, 'cache/prefixes/own'),
        prefix_model: 'aa',
        prefix_bytes: 2 ** 28,
        prefix_key: 'ab'.repeat(16),
      };
      const target = JSON.stringify({ addon, home: home.dir, daemonPid: daemon.pid, tcpPort });
      const engine = await startEngine({ entry: ENTRY, env: { SVC_TEST_TARGET: target } });
      try {
        await engine.load(prefixes);
        assert.ok(await engine.answer(1, PROMPT));
        process.kill(engine.pid, 'SIGUSR2');
        await waitFor('the attacks', () => engine.output().endsWith('end\n'));

        const found = parse(engine.output().replace(/end\n$/, ''));
        const threads = new Set([...found.keys()].map((key) => key.split(' ')[0]));
        assert.equal([...threads].sort(), ['early', 'late', 'pool', 'script']);
        assert.ok(found.size > 200, `${String(found.size)} attacks`);
        const succeeded = [...found].filter(([, error]) => error === 'none').map(([attack]) => attack);
        assert.equal(succeeded, []);
        // The errno must come from the sandbox, not from a faulty attack.
        const refusals = new Set(['EPERM', 'EACCES', 'ENOSYS', 'EXDEV']);
        const isAbsent = (attack: string): boolean => / see_(physical_memory|kernel_log)$/.test(attack);
        const odd = [...found].filter(([attack, error]) => !refusals.has(error) && !isAbsent(attack));
        assert.equal(odd, []);

        assert.ok(await engine.answer(2, `${PROMPT} And then?`), 'it still generates');
        engine.send({ type: 'close' });
        assert.equal(await engine.ended, { code: 0, signal: null });
        assert.is(
          daemon.log.some(({ level }) => level === 'fatal'),
          false,
        );
        await waitFor('the daemon to be ready', async () => (await daemon.client.ready()).status === 'ready');
      } finally {
        engine.kill();
        await engine.ended;
      }
      assert.ok(existsSync(join(home.dir, NEIGHBOUR)));
      const [file] = readdirSync(prefixes.prefix_folder);
      assert.ok(file !== undefined, 'what it computed is on the disk');
      const saved = join(prefixes.prefix_folder, file);
      assert.is(statSync(saved).mode & 0o777, 0o600);

      const before = new Date('2020-01-01');
      utimesSync(saved, before, before);
      const next = await startEngine();
      try {
        await next.load(prefixes);
        assert.ok(((await next.answer(1, PROMPT))?.usage.cached_tokens ?? 0) > 64, 'and taken from there');
        await waitFor('the file to be marked as used', () => statSync(saved).mtimeMs > before.getTime());
      } finally {
        next.kill();
        await next.ended;
      }
    });
  });

  test('the same attacks succeed outside the sandbox', async ({ home }) => {
    const addon = compile(home);
    await withDaemon(home, (daemon, tcpPort) => {
      plant(home);
      const script = `process.stdout.write(require(${JSON.stringify(addon)}).attack(...${JSON.stringify([home.dir, daemon.pid, tcpPort, 1])}))`;
      const found = parse(execFileSync(process.execPath, ['-e', script], { encoding: 'utf8' }));
      const failed = [...found].filter(([, error]) => error !== 'none');
      // A container may forbid some of these to all processes.
      const elsewhere = /signal_everyone|create_in_tmp|see_terminal|see_all_processes/;
      assert.equal(
        failed.filter(([attack]) => !elsewhere.test(attack)),
        [],
      );
      assert.ok(found.size > 60);
      return Promise.resolve();
    });
  });
}

if (process.platform === 'linux') {
  test('every thread of a loaded engine has the same restrictions', async () => {
    const engine = await startEngine();
    try {
      await engine.load();
      const threads = statusOfThreads(engine.pid);
      assert.ok(threads.length > 5, `${String(threads.length)} threads`);
      for (const status of threads) {
        for (const line of [
          'NoNewPrivs:\t1',
          'Seccomp:\t2',
          `CapEff:\t${'0'.repeat(16)}`,
          `CapPrm:\t${'0'.repeat(16)}`,
        ])
          assert.match(status, line);
      }
      assert.match(readFileSync(`/proc/${String(engine.pid)}/limits`, 'utf8'), /Max core file size +0 +0 /);
      // Without CAP_SYS_PTRACE only dumpable processes can be inspected.
      const drop = isRoot ? ['setpriv', '--bounding-set=-all', '--inh-caps=-all'] : [];
      const [command, ...rest] = [...drop, 'head', '-c1', `/proc/${String(engine.pid)}/environ`];
      assert.is.not(spawnSync(command, rest).status, 0, 'it is not dumpable');
      assert.is(readFileSync(`/proc/${String(engine.pid)}/oom_score_adj`, 'utf8'), '500\n');
      if (isRoot) assert.is(getPriority(engine.pid), -5);
    } finally {
      engine.kill();
      await engine.ended;
    }
  });

  // Only root can list the descriptors of a non-dumpable process.
  unless(isRoot ? undefined : 'only root can list descriptors', test)(
    'an engine inherits no descriptor of the daemon, and neither process dumps core',
    async ({ home }) => {
      const secret = join(home.dir, 'inherited');
      writeFileSync(secret, 'x');
      // Inherited descriptors as a shell may leave them: next to the pipe, in between, and far above.
      const script = `exec 4<${secret} 5<${secret} 19<${secret} 251<${secret}; exec "$@"`;
      const held = (pid: number): string[] =>
        readdirSync(`/proc/${String(pid)}/fd`).filter(
          (file) =>
            statSync(`/proc/${String(pid)}/fd/${file}`, { throwIfNoEntry: false })?.ino === statSync(secret).ino,
        );
      const daemon = await spawnDaemon(home, { through: ['bash', '-c', script, 'bash'] }).settled();
      try {
        assert.ok(held(daemon.pid).length > 0, 'the daemon has them');
        const pid = await waitFor('the engine', async () => (await daemon.client.status()).models[0]?.pid);
        assert.equal(held(pid), []);
        for (const each of [daemon.pid, pid])
          assert.match(readFileSync(`/proc/${String(each)}/limits`, 'utf8'), /Max core file size +0 +0 /);
      } finally {
        daemon.kill('SIGTERM');
        await daemon.exit;
      }
    },
  );

  test('every trial of doctor is refused in the sandbox', async () => {
    const tried = await trySandbox();
    const parts = missingParts(tried.report);
    const { status, detail } = judge(tried);
    if (parts.length === 0) assert.is(status, 'ok', detail ?? '');
    else assert.is(status, 'warn', 'this kernel lacks a part');
    assert.is(tried.attempts.length, 40);
    for (const { what, error } of tried.attempts) {
      if (parts.length === 0) assert.match(error ?? 'nothing', /^(EPERM|EACCES|ENOSYS)$/, what);
    }
  });
}

test('doctor names what the kernel lacks, and reports a hole as a failure', () => {
  const whole = { noNewPrivileges: 0, capabilities: 0, landlock: 0, landlockVersion: 7, seccomp: 0 };
  const attempts = [
    { what: 'to read a file of the system', error: null },
    { what: 'to start a program', error: 'EPERM' },
  ];
  assert.is(judge({ report: whole, attempts }).status, 'fail');
  assert.match(
    judge({ report: whole, attempts }).detail ?? '',
    'an engine process was able to read a file of the system',
  );
  const without = judge({ report: { ...whole, landlock: 95, landlockVersion: 0 }, attempts });
  assert.is(without.status, 'warn');
  assert.is(without.value, 'no Landlock');
  assert.match(without.detail ?? '', /missing: Landlock, which restricts file access \(not supported by this kernel\)/);
  const old = judge({ report: { ...whole, landlockVersion: 2 }, attempts: [] });
  assert.match(old.detail ?? '', /blocking truncation of files \(Landlock 3; this kernel has 2\)/);
  assert.is(judge({ report: whole, attempts: [] }).status, 'ok');
});

test.run();
