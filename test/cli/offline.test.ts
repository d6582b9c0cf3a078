/** Commands without a running daemon, and errors before a daemon is contacted. */
import { appendFileSync, mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import type { DoctorRecord } from '../../src/protocol/doctor.ts';
import type { ModelMemory, ModelRecord, StatusRecord, VersionRecord } from '../../src/protocol/records.ts';
import { builtinModelPath } from '../../src/models/store/builtin.ts';
import { assertExit } from '../support/exit.ts';
import { configure, makeHome, type Home } from '../support/home.ts';
import { svc, type SvcOptions, type SvcResult } from '../support/svc.ts';

interface Context {
  home: Home;
  run(...args: string[]): Promise<SvcResult>;
  with(options: Omit<SvcOptions, 'home'>, ...args: string[]): Promise<SvcResult>;
}
const test = suite<Context>('offline');
test.before.each(async (context) => {
  context.home = await makeHome();
  context.run = (...args) => svc(args, { home: context.home });
  context.with = (options, ...args) => svc(args, { home: context.home, ...options });
});
test.after.each(({ home }) => home.remove());

/** Parses the single line that an error is printed as with --json. */
const errorOf = ({ stderr }: SvcResult): { code: string; message: string; hint?: string } => {
  const lines = stderr.trimEnd().split('\n');
  assert.is(lines.length, 1, stderr);
  return (JSON.parse(stderr) as { error: { code: string; message: string; hint?: string } }).error;
};

test('model show prints the memory of a model at the configured context length and at others', async ({ run }) => {
  await run('config', 'set', 'engine.context_length', '1024');
  const shown = await run('model', 'show', 'builtin', '--json');
  assertExit(shown, 0);
  const { id, memory } = JSON.parse(shown.stdout) as ModelRecord & { memory: readonly ModelMemory[] };
  assert.is(id, 'builtin');
  assert.equal(
    memory.map(({ context_length, default: isDefault }) => [context_length, isDefault]),
    [
      [1024, true],
      [2048, false],
    ],
  );
  const [short, long] = memory.map(({ devices }) => devices[0]);
  assert.ok(short !== undefined && long !== undefined);
  assert.is(short.weights_bytes, long.weights_bytes);
  // Prefix copies may take as many cells as the context; from 2,048 on, the prefill lane adds a quarter.
  assert.is(long.cache_bytes, 2.25 * short.cache_bytes);
  const { weights_bytes, cache_bytes, compute_bytes, process_bytes, total_bytes } = long;
  assert.is(total_bytes, weights_bytes + cache_bytes + compute_bytes + process_bytes);
  assert.match((await run('model', 'show', 'builtin')).stdout, /1,024 \(at load\) +CPU .* MB .* GB .*\n2,048 +CPU/);
});

test('help and version are printed on standard output', async ({ run }) => {
  const help = await run();
  assertExit(help, 0);
  assert.match(help.stdout, /svc <command>/);
  assert.is(help.stderr, '');
  assert.match((await run('run', '--help')).stdout, /--max-tokens N/);
  const version = await run('--version');
  assert.match(version.stdout, /^svc \d+\.\d+\.\d+\n$/);
});

test('usage errors exit 2, with text or JSON on standard error', async ({ run }) => {
  const plain = await run('modle');
  assertExit(plain, 2);
  assert.is(plain.stdout, '');
  assert.is(plain.stderr, 'svc: unknown command "modle"\nhint: did you mean "model"?\n');
  const json = await run('status', '--jsn', '--json');
  assertExit(json, 2);
  assert.equal(errorOf(json), {
    code: 'INVALID_REQUEST',
    message: 'unknown flag --jsn for svc status',
    hint: 'did you mean "--json"?',
  });
  for (const args of [
    ['run'],
    ['run', ' '],
    ['run', '--local', '--cloud', 'hi'],
    ['logs', '--tail', 'x'],
    ['model', 'show'],
  ]) {
    assertExit(await run(...args), 2, args.join(' '));
  }
});

test('exit codes without a daemon: status 3, health 69, commands that need it 3, stop 0', async ({ run, home }) => {
  const status = await run('status', '--json');
  assertExit(status, 3);
  const record = JSON.parse(status.stdout) as StatusRecord;
  assert.is(record.state, 'STOPPED');
  assert.is(record.pid, null);
  assert.is(record.socket, join(home.dir, 'run', 'svc.sock'));
  assert.is(record.last_exit, null);
  assert.is(status.stdout, `${JSON.stringify(record, null, 2)}\n`);
  assert.match((await run('status')).stdout, /svc start/);

  for (const source of ['http', 'grpc', 'socket']) {
    const health = await run('health', '--source', source, '--json');
    assertExit(health, 69);
    assert.is(errorOf(health).code, 'DAEMON_NOT_RUNNING');
  }

  for (const args of [
    ['run', '--no-start', 'hi'],
    ['model', 'load', 'builtin'],
    ['model', 'unload', 'builtin'],
  ]) {
    const result = await run(...args, '--json');
    assert.is(result.code, 3, args.join(' '));
    assert.is(errorOf(result).code, 'DAEMON_NOT_RUNNING');
  }
  const stop = await run('stop');
  assertExit(stop, 0);
  assert.is(stop.stdout, 'svc is not running\n');
});

test('logs are read from the file', async ({ run, home }) => {
  const none = await run('logs');
  assertExit(none, 0);
  assert.match(none.stderr, /no log yet/);
  mkdirSync(join(home.dir, 'state'));
  const line = (level: string, n: number): string =>
    JSON.stringify({ level, time: '2026-01-01T00:00:00.000Z', pid: 1, msg: `line ${String(n)}` });
  const log = join(home.dir, 'state', 'daemon.log');
  writeFileSync(`${log}.1`, `${line('info', 1)}\n`);
  writeFileSync(log, `${line('info', 2)}\n${line('error', 3)}\n`);
  appendFileSync(log, 'Segmentation fault\n');
  assert.is(
    (await run('logs')).stdout,
    `${line('info', 1)}\n${line('info', 2)}\n${line('error', 3)}\nSegmentation fault\n`,
  );
  assert.is((await run('logs', '--tail', '2')).stdout, `${line('error', 3)}\nSegmentation fault\n`);
  assert.is((await run('logs', '--tail', '0')).stdout, '');
  assert.is((await run('logs', '--level', 'warn')).stdout, `${line('error', 3)}\nSegmentation fault\n`);
});

test('models and providers are read from the store', async ({ run, home }) => {
  const { models } = JSON.parse((await run('model', 'list', '--json')).stdout) as { models: ModelRecord[] };
  assert.equal(
    models.map(({ id, builtin, state }) => ({ id, builtin, state })),
    [{ id: 'builtin', builtin: true, state: 'installed' }],
  );

  const added = await run('model', 'add', builtinModelPath(), '--name', 'mine', '--json');
  assertExit(added, 0);
  assert.is((JSON.parse(added.stdout) as ModelRecord).id, 'mine');
  assert.is((await run('model', 'default', 'mine')).stdout, 'the default model is mine\n');
  assert.is((JSON.parse((await run('model', 'show', 'mine', '--json')).stdout) as ModelRecord).default, true);
  const providers = await run('provider', 'list', '--json');
  assert.match(providers.stdout, /"name": "local"/);
  assert.match(providers.stdout, /"default_model": "mine"/);
  assert.match((await run('model', 'list')).stdout, /^mine \(default\) .* llama$/m);

  assert.is((await run('model', 'rm', 'mine', '--json')).stdout, '{\n  "removed": "mine"\n}\n');
  const gone = await run('model', 'show', 'mine', '--json');
  assertExit(gone, 1);
  assert.is(errorOf(gone).code, 'MODEL_NOT_FOUND');

  const copied = await run('model', 'add', builtinModelPath(), '--copy', '--name', 'copy');
  assertExit(copied, 0);
  const unasked = await run('model', 'rm', 'copy');
  assertExit(unasked, 2);
  assert.match(unasked.stderr, /deletes .*\nhint: .*--yes/);
  assertExit(await run('model', 'rm', '--yes', 'copy'), 0);

  const text = join(home.dir, 'text.gguf');
  writeFileSync(text, 'hello');
  const refused = await run('model', 'add', text, '--json');
  assertExit(refused, 65);
  assert.is(errorOf(refused).code, 'MODEL_INVALID');
});

test('an invalid config is reported with its line, exit 78', async ({ run, home }) => {
  configure(home, '{\n  "htp": {}\n}\n');
  const result = await run('model', 'list', '--json');
  assertExit(result, 78);
  assert.match(errorOf(result).message, /config\.json:2:3: unknown key "htp"/);
});

test('version prints the details of the addon, or why it cannot be loaded', async ({ run, home, with: runWith }) => {
  const record = JSON.parse((await run('version', '--json')).stdout) as VersionRecord;
  assert.is(record.node, process.versions.node);
  assert.is(record.addon.error, null);
  assert.ok(record.addon.backends.includes('CPU'));
  const broken = await runWith({ env: { SVC_ADDON: join(home.dir, 'none.node') } }, 'version', '--json');
  assertExit(broken, 0);
  assert.match((JSON.parse(broken.stdout) as VersionRecord).addon.error ?? '', /none\.node/);
});

test('doctor runs a kernel and the default model without a daemon', async ({ run }) => {
  const result = await run('doctor', '--json');
  const { ok, checks } = JSON.parse(result.stdout) as DoctorRecord;
  assert.is(result.code, 0, result.stdout);
  assert.is(ok, true);
  const byName = new Map(checks.map((check) => [check.name, check]));
  assert.match(byName.get('device CPU')?.value ?? '', /^\d+\.\d GFLOP\/s$/);
  assert.match(byName.get('default_model')?.detail ?? '', /one token in an engine process of its own/);
  assert.is(byName.get('daemon')?.status, 'skip');
});

test('doctor reports what is broken and continues', async ({ home, with: runWith }) => {
  configure(home, '{ "http": { "port": "x" } }');
  const result = await runWith({ env: { SVC_ADDON: join(home.dir, 'none.node') } }, 'doctor', '--json');
  const { ok, checks } = JSON.parse(result.stdout) as DoctorRecord;
  assertExit(result, 1);
  assert.is(ok, false);
  const failed = checks.filter((check) => check.status === 'fail').map((check) => check.name);
  assert.equal(failed, ['addon', 'config']);
  assert.ok(checks.some((check) => check.name === 'memory' && check.status !== 'fail'));
});

test('standard input that is not UTF-8 or too long exits 65 before a daemon is started', async ({
  with: runWith,
  run,
}) => {
  const binary = await runWith({ input: Buffer.from([0x68, 0xff, 0xfe]) }, 'run', '--json');
  assertExit(binary, 65);
  assert.is(errorOf(binary).code, 'INPUT_INVALID');
  const large = await runWith({ input: Buffer.alloc(32 * 1024 * 1024 + 1, 'a') }, 'run', '-', '--json');
  assertExit(large, 65);
  assert.is(errorOf(large).code, 'REQUEST_TOO_LARGE');
  assertExit(await run('status'), 3);
});

test.run();
