import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { loadConfig, parseConfig } from '../../src/config/config.ts';
import { SvcError } from '../../src/protocol/errors.ts';

const scratch = mkdtempSync(join(tmpdir(), 'svc-config-'));
const configFile = join(scratch, 'config.json');

test.after(() => {
  rmSync(scratch, { recursive: true, force: true });
});
test.before.each(() => {
  rmSync(configFile, { recursive: true, force: true });
  delete process.env['SVC_HTTP_ADDR'];
  delete process.env['SVC_GRPC_ADDR'];
  delete process.env['SVC_LOG_LEVEL'];
});

function refusal(): SvcError {
  try {
    loadConfig({ configFile });
  } catch (error) {
    if (error instanceof SvcError) return error;
    throw error;
  }
  throw new Error('it was not refused');
}

test('without a file, with an empty file or an empty object, the defaults hold', () => {
  const defaults = loadConfig({ configFile });
  assert.equal(defaults.http, { host: '127.0.0.1', port: 7117, allowed_hosts: [], origins: [] });
  assert.equal(defaults.grpc, { host: '127.0.0.1', port: 7118 });
  assert.equal(defaults.ollama, { listen: null });
  assert.equal(defaults.engine, {
    stall_timeout_seconds: 60,
    queue_limit: 256,
    prefix_sharing: 'all',
    draft_model: null,
    repetition_guard: 'off',
  });
  assert.equal(defaults.log, { level: 'info' });
  for (const text of ['', '  \n', '// nothing yet\n', '{}', '\uFEFF{}']) {
    writeFileSync(configFile, text);
    assert.equal(loadConfig({ configFile }), defaults);
  }
});

test('ollama.listen is an address, or null', () => {
  for (const listen of ['127.0.0.1:11434', '[::1]:0', 'localhost:1', null])
    assert.equal(parseConfig(JSON.stringify({ ollama: { listen } })).config.ollama, { listen });
  for (const listen of ['11434', '127.0.0.1', ':1', '127.0.0.1:70000', '', 7, true]) {
    const [problem] = parseConfig(JSON.stringify({ ollama: { listen } })).problems;
    assert.match(problem?.message ?? '', /^"ollama\.listen" must be host:port/, String(listen));
  }
});

test('comments and trailing commas are accepted; given values override defaults', () => {
  writeFileSync(
    configFile,
    '{\n  // our port\n  "http": {"port": 8000,},\n  /* cores */ "engine": {"threads": 4}\n}\n',
  );
  const config = loadConfig({ configFile });
  assert.is(config.http.port, 8000);
  assert.is(config.http.host, '127.0.0.1');
  assert.is(config.engine.threads, 4);
});

test('the environment overrides the file', () => {
  writeFileSync(configFile, '{"http": {"port": 8000}, "grpc": {"port": 8001}, "log": {"level": "warn"}}');
  assert.is(loadConfig({ configFile }).grpc.port, 8001);
  process.env['SVC_HTTP_ADDR'] = '[::1]:0';
  process.env['SVC_GRPC_ADDR'] = 'localhost:1';
  process.env['SVC_LOG_LEVEL'] = 'debug';
  const config = loadConfig({ configFile });
  assert.is(config.http.host, '::1');
  assert.is(config.http.port, 0);
  assert.equal(config.grpc, { host: 'localhost', port: 1 });
  assert.is(config.log.level, 'debug');
});

test('an invalid value in the environment is refused', () => {
  for (const address of ['localhost', ':7117', '127.0.0.1:70000', '127.0.0.1:x', 'a:b:7117', '127.0.0.1:']) {
    process.env['SVC_HTTP_ADDR'] = address;
    assert.match(refusal().message, 'SVC_HTTP_ADDR', address);
  }
  delete process.env['SVC_HTTP_ADDR'];
  process.env['SVC_GRPC_ADDR'] = '7118';
  assert.match(refusal().message, 'SVC_GRPC_ADDR');
  delete process.env['SVC_GRPC_ADDR'];
  process.env['SVC_LOG_LEVEL'] = 'loud';
  assert.match(refusal().message, 'SVC_LOG_LEVEL');
});

test('an unknown key is reported with its place', () => {
  writeFileSync(configFile, '{\n  "http": {\n    "prot": 80\n  }\n}');
  const error = refusal();
  assert.is(error.code, 'CONFIG_INVALID');
  assert.is(error.message, `${configFile}:3:5: unknown key "http.prot"`);
});

test('invalid values are reported with their place, in order', () => {
  writeFileSync(configFile, '{\n  "nonsense": 1,\n  "log": {"level": "loud"},\n  "http": {"port": 65536}\n}');
  const error = refusal();
  assert.match(error.message, `${configFile}:2:3: unknown key "nonsense" (and 2 more)`);
  const places: [string, number, number, RegExp][] = [
    ['{"http": {"port": "80"}}', 1, 19, /"http.port" must be a number/],
    ['{"http": {"port": 1.5}}', 1, 19, /whole number/],
    ['{"http": []}', 1, 10, /"http" must be an object/],
    ['[]', 1, 1, /the config must be an object/],
    ['{"models": {"dir": "models"}}', 1, 20, /absolute path/],
    ['{"http": {"allowed_hosts": ["a", 3]}}', 1, 34, /"http.allowed_hosts.1"/],
    ['{"http": {"origins": ["https://a.example", "*"]}}', 1, 44, /"http.origins.1" must be an exact origin/],
    ['{"http": {"origins": [{"origin": "app://a", "scope": "root"}]}}', 1, 54, /scope" must be one of local, /],
    ['{"http": {"origins": [{"origin": "app://a", "may": 1}]}}', 1, 45, /unknown key "http.origins.0.may"/],
    ['{"http": {"origins": ["app://a", {"origin": "app://a"}]}}', 1, 22, /names an origin twice/],
    ['{\n"http" {}}', 2, 8, /not valid JSON: colon expected/],
  ];
  for (const [text, line, column, message] of places) {
    const [problem] = parseConfig(text).problems;
    assert.ok(problem, text);
    assert.equal([problem.line, problem.column], [line, column], text);
    assert.match(problem.message, message);
  }
});

test('a file that cannot be read is an error, not treated as missing', () => {
  mkdirSync(configFile);
  assert.is(refusal().code, 'CONFIG_INVALID');
  rmSync(configFile, { recursive: true });
  writeFileSync(configFile, `{}${' '.repeat(1024 * 1024)}`);
  assert.match(refusal().message, 'larger than');
});

test.run();
