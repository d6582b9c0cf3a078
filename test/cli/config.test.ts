/** `svc config` on the command line. */
import { lstatSync, mkdirSync, readFileSync, rmSync, statSync, symlinkSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { setSetting, settingNames, type Setting } from '../../src/config/settings.ts';
import { assertExit } from '../support/exit.ts';
import { rejection } from '../support/errors.ts';
import { makeHome, type Home } from '../support/home.ts';
import { svc, type SvcOptions, type SvcResult } from '../support/svc.ts';

interface Context {
  home: Home;
  file: string;
  write(text: string): void;
  read(): string;
  run(...args: string[]): Promise<SvcResult>;
  with(env: SvcOptions['env'], ...args: string[]): Promise<SvcResult>;
}
const test = suite<Context>('config');
test.before.each(async (context) => {
  const home = (context.home = await makeHome());
  context.file = join(home.dir, 'config', 'config.json');
  context.write = (text) => {
    mkdirSync(dirname(context.file), { recursive: true });
    writeFileSync(context.file, text);
  };
  context.read = () => readFileSync(context.file, 'utf8');
  // Without the variable that test homes set, which would override the file.
  context.with = (env, ...args) => svc(['config', ...args], { home, env: { SVC_HTTP_ADDR: undefined, ...env } });
  context.run = (...args) => context.with({}, ...args);
});
test.after.each(({ home }) => home.remove());

const shown = ({ stdout }: SvcResult): Map<string, Setting> =>
  new Map((JSON.parse(stdout) as { settings: Setting[] }).settings.map((setting) => [setting.name, setting]));

test('show lists every setting and its source', async ({ write, file, run, with: runWith }) => {
  assert.equal([...shown(await run('show', '--json')).keys()], settingNames());
  write('{\n  "http": { "port": 8000 },\n  "log": { "level": "warn" }\n}\n');
  const settings = shown(await runWith({ SVC_LOG_LEVEL: 'debug' }, 'show', '--json'));
  assert.equal(settings.get('http.port'), { name: 'http.port', value: 8000, origin: 'file', at: `${file}:2:21` });
  assert.equal(settings.get('http.host'), { name: 'http.host', value: '127.0.0.1', origin: 'default', at: null });
  assert.equal(settings.get('log.level'), {
    name: 'log.level',
    value: 'debug',
    origin: 'environment',
    at: 'SVC_LOG_LEVEL',
  });
  assert.is(settings.get('engine.threads')?.value, null);
  const text = (await runWith({ SVC_HTTP_ADDR: '[::1]:9' }, 'show', '--origin')).stdout;
  assert.match(text, /^http\.host +::1 +SVC_HTTP_ADDR$/m);
  assert.match(text, /^http\.port +9 +SVC_HTTP_ADDR$/m);
  assert.match(text, /^log\.level +warn +\S+config\.json:3:21$/m);
  assert.match(text, /^engine\.threads +\(automatic\) +default$/m);
  assert.not.match((await run('show')).stdout, / default$|config\.json/m);
});

test('get prints one value', async ({ run }) => {
  assert.is((await run('get', 'http.port')).stdout, '7117\n');
  assert.is((await run('get', 'http.host')).stdout, '127.0.0.1\n');
  assert.is((await run('get', 'http.allowed_hosts')).stdout, '[]\n');
  assert.is((await run('get', 'engine.threads')).stdout, 'null\n');
  assert.equal(JSON.parse((await run('get', 'http.port', '--json')).stdout), {
    name: 'http.port',
    value: 7117,
    origin: 'default',
    at: null,
  });
  for (const [name, hint] of [
    ['http.prot', /did you mean "http\.port"/],
    ['port', /did you mean "http\.port"/],
    ['http', /it is a section: http\.host, http\.port/],
    ['__proto__', /svc config show/],
    ['models.default.from', /"default" cannot be the name of a model/],
    ['providers.Farm.base_url', /small letters, digits and dashes/],
  ] as const) {
    const result = await run('get', name);
    assert.is(result.code, 2, name);
    assert.match(result.stderr, hint);
  }
});

test('set creates the file with mode 0600 and changes only the given setting', async ({ run, file, read }) => {
  const set = await run('set', 'http.port', '8000', '--json');
  assertExit(set, 0);
  assert.equal(JSON.parse(set.stdout), { name: 'http.port', value: 8000, file, restart_needed: false });
  assert.is(statSync(file).mode & 0o777, 0o600);
  assertExit(await run('set', 'http.allowed_hosts', '["a.example", "b"]'), 0);
  assertExit(await run('set', 'log.level', 'debug'), 0);
  assertExit(await run('set', 'http.host', '127'), 0, 'a text that looks like a number');
  assert.equal(JSON.parse(read()), {
    http: { port: 8000, allowed_hosts: ['a.example', 'b'], host: '127' },
    log: { level: 'debug' },
  });
  assertExit(await run('unset', 'http.port'), 0);
  assert.is((await run('get', 'http.port')).stdout, '7117\n');
  assert.match((await run('unset', 'http.port')).stdout, /was not in/);
  assertExit(await run('unset', 'http.prot'), 2);
});

test('set keeps comments, a symbolic link and the mode of the file', async ({ run, write, read, file, home }) => {
  const text = '// mine\n{\n  "http": {\n    "port": 1, // one\n  },\n  /* end */\n}\n';
  const real = join(home.dir, 'dotfiles.json');
  write('');
  writeFileSync(real, text, { mode: 0o640 });
  rmSync(file);
  symlinkSync(real, file);
  assertExit(await run('set', 'http.port', '2'), 0);
  assert.is(read(), text.replace('1,', '2,'));
  assert.ok(lstatSync(file).isSymbolicLink());
  assert.is(statSync(real).mode & 0o777, 0o640);
});

test('an invalid value is refused, and nothing is written', async ({ run, write, read, file }) => {
  const text = '{ "http": { "port": 8000 } }';
  write(text);
  for (const [name, value, message] of [
    ['http.port', '99999', /http\.port must be at most 65535/],
    ['http.port', 'x', /http\.port must be a number/],
    ['http.port', '1.5', /whole number/],
    ['http.port', '', /must be a number/],
    ['log.level', 'loud', /must be one of trace/],
    ['models.dir', 'models', /absolute path/],
    ['http.allowed_hosts', 'a', /must be a list/],
    ['http.allowed_hosts', '["a", 3]', /http\.allowed_hosts\.1/],
  ] as const) {
    await rejection(() => setSetting({ configFile: file }, name, value), 'INVALID_REQUEST', message);
    assert.is(read(), text);
  }
  assertExit(await run('set', 'http.port', 'x'), 2);
});

test("a folder with Ollama's models is refused as models.dir", async ({ run, write, read, home }) => {
  const ollama = join(home.dir, 'ollama');
  mkdirSync(join(ollama, 'manifests'), { recursive: true });
  write('{}');
  const refused = await run('set', 'models.dir', ollama);
  assertExit(refused, 2);
  assert.match(refused.stderr, 'has models of Ollama');
  assert.match(refused.stderr, 'svc model import --from ollama');
  assert.is(read(), '{}');
});

test('an invalid file is reported with its place, and only changes that repair it are written', async ({
  run,
  write,
  read,
  file,
}) => {
  const broken = '{\n  "http": { "port": 1\n';
  write(broken);
  for (const args of [['set', 'http.port', '2'], ['unset', 'http.port'], ['show'], ['get', 'http.port']]) {
    const result = await run(...args);
    assert.is(result.code, 78, args.join(' '));
    assert.ok(result.stderr.includes(`${file}:3:1: not valid JSON`), result.stderr);
    assert.not.match(result.stderr, /svc config unset/);
    assert.is(read(), broken);
  }
  write('{ "htp": 1, "log": { "level": "loud" } }');
  const other = await run('set', 'http.port', '2');
  assertExit(other, 78);
  assert.match(other.stderr, /config\.json:1:3: unknown key "htp"[^]*svc config unset/);
  assertExit(await run('unset', 'htp'), 0);
  assertExit(await run('set', 'log.level', 'warn'), 0, 'what is wrong is what is set');
  assert.equal(JSON.parse(read()), { log: { level: 'warn' } });
});

test('validate reports every problem with line and column', async ({ run, write, file, with: runWith }) => {
  assert.match((await run('validate')).stdout, /does not exist: the defaults apply/);
  write('{ "http": { "port": 1 } }');
  assert.is((await run('validate')).stdout, `${file} is valid\n`);
  write('{\n  "htp": {},\n  "http": { "port": "x" },\n  "http": {}\n}');
  const result = await run('validate');
  assertExit(result, 78);
  const lines = result.stdout.trimEnd().split('\n');
  assert.is(lines[0], `${file}:2:3: unknown key "htp"; did you mean "http"?`);
  assert.ok(lines.includes(`${file}:4:3: duplicate key "http"`), result.stdout);
  const { code, stdout } = await runWith({ SVC_HTTP_ADDR: 'nowhere' }, 'validate', '--json');
  assert.is(code, 78);
  const record = JSON.parse(stdout) as { valid: boolean; problems: { line: number | null; message: string }[] };
  assert.is(record.valid, false);
  assert.ok(record.problems.some(({ line, message }) => line === null && message.includes('SVC_HTTP_ADDR')));
});

test('path prints the path', async ({ run, file, with: runWith }) => {
  assert.is((await run('path')).stdout, `${file}\n`);
  const other = await runWith({ SVC_CONFIG: '/tmp/none.json' }, 'path', '--json');
  assert.equal(JSON.parse(other.stdout), { path: '/tmp/none.json', exists: false });
});

test('concurrent set commands lose no change', async ({ run, read }) => {
  const names = ['engine.threads', 'engine.gpu_layers', 'engine.max_sequences', 'engine.queue_limit', 'http.port'];
  const results = await Promise.all(names.map((name, index) => run('set', name, String(index + 1))));
  for (const { code, stderr } of results) assert.is(code, 0, stderr);
  assert.equal(JSON.parse(read()), {
    engine: { threads: 1, gpu_layers: 2, max_sequences: 3, queue_limit: 4 },
    http: { port: 5 },
  });
});

test('set warns about environment overrides, and about settings that need a restart of a running daemon', async ({
  home,
  with: runWith,
}) => {
  const env = home.env;
  const overridden = await runWith(env, 'set', 'http.port', '8000');
  assert.match(overridden.stderr, /SVC_HTTP_ADDR overrides the file here: http\.port is 0/);
  assert.not.match(overridden.stderr, /daemon/);
  const started = await svc(['start', '--json', '--timeout', '150s'], { home });
  try {
    assertExit(started, 0);
    const now = await runWith(env, 'set', 'log.level', 'debug', '--json');
    assert.is((JSON.parse(now.stdout) as { restart_needed: boolean }).restart_needed, false);
    assert.is(now.stderr, '');
    const later = await runWith(env, 'set', 'engine.queue_limit', '9', '--json');
    assert.is((JSON.parse(later.stdout) as { restart_needed: boolean }).restart_needed, true);
    assert.match(later.stderr, /restart the daemon to apply the change: svc restart/);
    assert.match((await svc(['logs'], { home })).stdout, /restart_needed.*engine\.queue_limit/);
  } finally {
    await svc(['stop', '--force'], { home });
  }
});

test.run();
