/** Where traces go: the settings, OpenTelemetry's variables, and what may not be sent. */
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { parseConfig, type Config } from '../../src/config/config.ts';
import { mayCarrySecrets, urlOfEndpoint } from '../../src/config/traces-settings.ts';
import { readTraceHeaders } from '../../src/home/trace-headers-file.ts';
import { createLogger } from '../../src/log/log.ts';
import { tracesOf } from '../../src/traces/configured.ts';
import { configure, makeHome, type Home } from '../support/home.ts';
import { svc } from '../support/svc.ts';

const test = suite<{ home: Home }>('settings of traces');
test.before(async (context) => {
  context.home = await makeHome();
});
test.after(({ home }) => home.remove());

const problemOf = (traces: object): string | undefined => parseConfig(JSON.stringify({ traces })).problems[0]?.message;

/** Opens traces with these settings. Returns what was logged, and whether they are on. */
function opened(settings: Partial<Config['traces']>): { readonly isOn: boolean; readonly told: string } {
  let told = '';
  const destination = {
    write: (line: string): void => void (told += line),
    flushSync: () => undefined,
    close: () => Promise.resolve(),
  };
  const { traces } = parseConfig('').config;
  const found = tracesOf({ ...traces, ...settings }, createLogger({ destination }));
  return { isOn: found.counts() !== null, told };
}

test('settings that cannot be used are errors, and none quotes a secret', () => {
  for (const [traces, message] of [
    [{ endpoint: 'collector:4318' }, '"traces.endpoint" must begin with http:// or https://'],
    [{ endpoint: 'nowhere' }, '"traces.endpoint" must be a URL, http://HOST:4318'],
    [
      { endpoint: 'http://me:secret@host:4318' },
      '"traces.endpoint" must not contain a user name or a password: use traces.headers_file',
    ],
    [{ sample_ratio: 2 }, '"traces.sample_ratio" must be at most 1'],
    [{ headers: {} }, 'unknown key "traces.headers"'],
  ] as const)
    assert.is(problemOf(traces), message);
  assert.is(problemOf({ endpoint: null, sample_ratio: 0 }), undefined);
});

test('a bare host has the usual path; any other path is used unchanged', () => {
  for (const [endpoint, url] of [
    ['http://127.0.0.1:4318', 'http://127.0.0.1:4318/v1/traces'],
    ['https://host/', 'https://host/v1/traces'],
    ['https://host/otlp/v1/traces', 'https://host/otlp/v1/traces'],
    ['https://host/in?team=a', 'https://host/in?team=a'],
  ] as const)
    assert.is(urlOfEndpoint(endpoint).href, url);
});

test('headers are sent only over https, or to this machine', () => {
  for (const [url, may] of [
    ['https://collector.example/v1/traces', true],
    ['http://127.0.0.1:4318', true],
    ['http://localhost:4318', true],
    ['http://[::1]:4318', true],
    ['http://10.0.0.7:4318', false],
    ['http://collector.example', false],
  ] as const)
    assert.is(mayCarrySecrets(new URL(url)), may, url);
  const endpoint = 'http://10.0.0.7:4318';
  const refused = opened({ endpoint, headers_file: '/nowhere' });
  assert.equal([refused.isOn, /sent only over https/.test(refused.told)], [false, true]);
  assert.ok(opened({ endpoint }).isOn);
  assert.not.ok(opened({ endpoint: null }).isOn);
});

test('the file of headers must be private and valid; no error quotes it', ({ home }) => {
  const write = (name: string, text: string, mode = 0o600): string => {
    const path = join(home.dir, name);
    writeFileSync(path, text, { mode });
    return path;
  };
  assert.equal(readTraceHeaders(write('good.json', '{"x-key": "secret-1"}')), { 'x-key': 'secret-1' });
  for (const [path, message] of [
    [write('open.json', '{"x-key": "secret-2"}', 0o644), 'can be read by other users'],
    [write('list.json', '["secret-3"]'), 'is damaged'],
    [write('lines.json', '{"x-key": "secret-4\\nx: y"}'), 'is damaged'],
    [join(home.dir, 'absent.json'), 'there is no file'],
  ] as const) {
    if (process.platform === 'win32' && path.endsWith('open.json')) continue;
    assert.throws(
      () => readTraceHeaders(path),
      (error: Error) => error.message.includes(message) && !error.message.includes('secret'),
    );
  }
});

test("OpenTelemetry's variables override the file, and `config show` says so", async ({ home }) => {
  configure(home, '{"traces": {"endpoint": "http://127.0.0.1:1"}}');
  const shown = async (env: Record<string, string>): Promise<Record<string, unknown>> => {
    const { stdout } = await svc(['config', 'show', '--origin', '--json'], { home, env });
    const { settings } = JSON.parse(stdout) as { settings: { name: string; value: unknown; at: unknown }[] };
    return Object.fromEntries(settings.map(({ name, value, at }) => [name, [value, at]]));
  };
  const base = 'https://host/otlp/';
  const first = await shown({ OTEL_EXPORTER_OTLP_ENDPOINT: base, OTEL_SERVICE_NAME: 'mine' });
  assert.equal(first['traces.endpoint'], ['https://host/otlp/v1/traces', 'OTEL_EXPORTER_OTLP_ENDPOINT']);
  assert.equal(first['traces.service_name'], ['mine', 'OTEL_SERVICE_NAME']);
  const both = await shown({ OTEL_EXPORTER_OTLP_ENDPOINT: base, OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: 'https://b/t' });
  assert.equal(both['traces.endpoint'], ['https://b/t', 'OTEL_EXPORTER_OTLP_TRACES_ENDPOINT']);
});

test.run();
