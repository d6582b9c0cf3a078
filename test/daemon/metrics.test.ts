/** `/metrics` of a real daemon: its values, and that Prometheus tools can parse it. */
import { spawnSync } from 'node:child_process';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { probeGrpcHealth } from '../../src/client/grpc-health.ts';
import { childEnvironment } from '../../src/process/environment.ts';
import { Metrics, type Snapshot } from '../../src/daemon/metrics.ts';
import type { LoadedModelHealth, ProviderRecord } from '../../src/protocol/records.ts';
import { read } from '../architecture/source-files.ts';
import { ask } from '../http/ask.ts';
import { CONTROL_CALLER, type Caller } from '../../src/protocol/caller.ts';
import type { FinishEvent } from '../../src/protocol/generate.ts';
import { FINISH, LOCAL } from '../http/scripted.ts';
import { spawnDaemon, type DaemonProcess } from '../support/daemon.ts';
import { enginePid, hold, LONG_CONTEXT } from '../support/hold.ts';
import { configure, makeHome, type Home } from '../support/home.ts';
import { unless } from '../support/skip.ts';
import { isInstalled } from '../support/terminal.ts';
import { waitFor } from '../support/wait.ts';

let home: Home;
let daemon: DaemonProcess;
let port: number;

test.before(async () => {
  home = await makeHome();
  configure(home, { metrics: { vllm_aliases: true }, ...LONG_CONTEXT });
  daemon = await spawnDaemon(home).settled();
  port = Number((await daemon.client.status()).http?.split(':').at(-1));
});
test.after(async () => {
  daemon.kill('SIGTERM');
  await daemon.exit;
  await home.remove();
});

/** Parses a page into values by name and labels, as written on the page. */
function parse(page: string): Map<string, number> {
  const samples = page.split('\n').filter((line) => line !== '' && !line.startsWith('#'));
  return new Map(
    samples.map((line) => {
      const space = line.lastIndexOf(' ');
      return [line.slice(0, space), Number(line.slice(space + 1))];
    }),
  );
}

/** Waits for the first heartbeat of the engine, which reports its KV-cache cells. */
async function heartbeat(): Promise<void> {
  await waitFor('the heartbeat', async () => (await samples()).has('svc_kv_cells_used{model="builtin"}'));
}

async function samples(): Promise<Map<string, number>> {
  return parse((await ask({ port }, '/metrics')).text);
}

const LOCAL_BUILTIN = '{provider="local",model="builtin"}';

test('a generation is counted: tokens, times, requests, cells', async () => {
  await heartbeat();
  const before = await samples();
  const body = { messages: [{ role: 'user', content: 'Hello' }], max_completion_tokens: 16, seed: 1 };
  const askedAt = performance.now();
  const answer = (await ask({ port }, '/v1/chat/completions', { body })).json();
  const elapsedSeconds = (performance.now() - askedAt) / 1000;
  const after = await samples();
  const grown = (name: string): number => (after.get(name) ?? NaN) - (before.get(name) ?? 0);

  assert.is(grown('svc_http_requests_total{route="/v1/chat/completions",status="200"}'), 1);
  assert.is(grown('svc_generations_total{provider="local",model="builtin",outcome="ok"}'), 1);
  assert.is(grown(`svc_input_tokens_total${LOCAL_BUILTIN}`), answer.usage.prompt_tokens);
  assert.is(grown(`svc_output_tokens_total${LOCAL_BUILTIN}`), answer.usage.completion_tokens);
  assert.is(grown(`svc_cache_hit_tokens_total${LOCAL_BUILTIN}`), answer.usage.prompt_tokens_details.cached_tokens);
  assert.is(grown(`svc_time_to_first_token_seconds_count${LOCAL_BUILTIN}`), 1);
  assert.ok(grown(`svc_time_to_first_token_seconds_sum${LOCAL_BUILTIN}`) <= elapsedSeconds);
  assert.is(grown(`svc_inter_token_seconds_count${LOCAL_BUILTIN}`), 1);
  const perToken = grown(`svc_inter_token_seconds_sum${LOCAL_BUILTIN}`);
  assert.ok(Math.abs(perToken * answer.timings.tokens_per_second - 1) < 0.01);

  const health = await daemon.client.health();
  assert.is(after.get('svc_kv_cells_capacity{model="builtin"}'), health.models[0]?.kv_cells_total);
  assert.is(after.get('svc_ready'), 1);
  assert.is(after.get('svc_provider_state{provider="local",state="healthy"}'), 1);
  assert.is(after.get('svc_provider_state{provider="local",state="unhealthy"}'), 0);
  assert.ok((after.get('process_resident_memory_bytes') ?? 0) > 10e6);
  assert.ok((after.get('process_cpu_seconds_total') ?? 0) > 0.05);
  const started = Date.parse(health.started_at) / 1000;
  assert.ok(Math.abs((after.get('process_start_time_seconds') ?? 0) - started) < 30);
});

test('calls over gRPC are counted', async () => {
  const name = 'svc_grpc_calls_total{method="svc.v1.Runtime/GetHealth",code="OK"}';
  const { grpc } = await daemon.client.status();
  for (let calls = 1; calls <= 2; calls += 1) {
    await probeGrpcHealth(grpc ?? '');
    assert.is((await samples()).get(name), calls);
  }
});

test('active and cancelled generations are counted', async () => {
  const endless = { messages: [{ role: 'user', content: 'go' }], logit_bias: { '100': 100 }, stream: true };
  const leave = new AbortController();
  const generate = async (): Promise<string> => {
    const response = await fetch(`http://127.0.0.1:${String(port)}/v1/chat/completions`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify(endless),
      signal: leave.signal,
    });
    return await response.text();
  };
  const running = generate().catch(() => 'left');
  const active = await waitFor('the generation on the page', async () => {
    const now = await samples();
    return now.get('svc_requests_active') === 1 && now.get('svc_model_requests_active{model="builtin"}') === 1 && now;
  });
  assert.is(active.get('vllm:num_requests_running'), 1);
  assert.is(active.get('vllm:num_requests_waiting'), 0);
  const used =
    (active.get('svc_kv_cells_used{model="builtin"}') ?? 0) /
    (active.get('svc_kv_cells_capacity{model="builtin"}') ?? 1);
  assert.is(active.get('vllm:kv_cache_usage_perc'), used);
  const held = hold(await enginePid(daemon.client));
  leave.abort();
  assert.is(await running, 'left');
  held.release();
  await waitFor('the end of it', async () => {
    const now = await samples();
    const cancelled = now.get('svc_generations_total{provider="local",model="builtin",outcome="CANCELLED"}');
    return cancelled === 1 && now.get('svc_requests_active') === 0;
  });
});

test('a killed engine counts as a crash and a restart', async () => {
  const { models } = await daemon.client.health();
  process.kill(models[0]?.pid as number, 'SIGKILL');
  const after = await waitFor('the crash and the restart on the page', async () => {
    const now = await samples();
    return now.get('svc_engine_crashes_total') === 1 && now.get('svc_engine_restarts_total') === 1 && now;
  });
  assert.ok(after.has('svc_ready'));
  await waitFor('the engine to be back', async () => (await daemon.client.health()).status === 'ready');
});

test('no text from a client becomes a label', async () => {
  const odd = ['/canary', '/v1/models/canary', '/readyz/canary', '/%00canary', `/${'canary'.repeat(100)}`];
  for (const path of odd) await ask({ port }, path);
  await ask({ port }, '/v1/chat/completions', {
    body: { model: 'canary', messages: [{ role: 'user', content: 'canary' }] },
  });
  await ask({ port }, '/livez', { headers: { host: 'canary' } });
  const page = (await ask({ port }, '/metrics')).text;
  assert.not.match(page, /canary/);
  assert.ok((parse(page).get('svc_http_requests_total{route="none",status="404"}') ?? 0) >= 2);
  assert.ok((parse(page).get('svc_http_requests_total{route="/v1/models/*",status="404"}') ?? 0) >= 1);
});

test('the page has its content type, is not cacheable, and answers HEAD', async () => {
  const page = await ask({ port }, '/metrics');
  assert.is(page.headers['content-type'], 'text/plain; version=0.0.4; charset=utf-8');
  assert.is(page.headers['cache-control'], 'no-store');
  assert.is((await ask({ port }, '/metrics', { method: 'HEAD' })).text, '');
  assert.is((await ask({ port }, '/metrics', { method: 'POST' })).status, 405);
});

function feed(program: string, args: readonly string[], page: string): { status: number | null; said: string } {
  const { status, stdout, stderr } = spawnSync(program, args, {
    input: page,
    encoding: 'utf8',
    env: childEnvironment(),
  });
  return { status, said: stdout + stderr };
}

unless(isInstalled('promtool') ? undefined : 'there is no promtool (Debian: prometheus)', test)(
  'promtool complains only about the colon in the vLLM metric names',
  async () => {
    const page = (await ask({ port }, '/metrics')).text;
    const ours = page.split('\n\n').filter((family) => !family.includes(' vllm:'));
    assert.ok(ours.length > 15);
    assert.equal(feed('promtool', ['check', 'metrics'], `${ours.join('\n\n')}\n`), { status: 0, said: '' });
    // promtool reserves colons for recording rules, but the aliases are useful only under exactly these names.
    const { said } = feed('promtool', ['check', 'metrics'], page);
    const complaints = said.split('\n').filter((line) => line !== '');
    const aliases = [...page.matchAll(/^# TYPE (vllm:\S+)/gm)].map(([, name]) => name);
    assert.ok(aliases.length > 0);
    assert.equal(
      complaints.sort(),
      aliases.map((name) => `${String(name)} metric names should not contain ':'`).sort(),
    );
  },
);

const PYTHON = process.platform === 'linux' ? '/usr/bin/python3' : 'python3';

unless(
  isInstalled(PYTHON, ['-c', 'import prometheus_client']) ? undefined : 'there is no python3-prometheus-client',
  test,
)("Prometheus' own Python client reads every family of the page", async () => {
  const page = (await ask({ port }, '/metrics')).text;
  const script =
    'import sys\nfrom prometheus_client.parser import text_string_to_metric_families as parse\n' +
    'for f in parse(sys.stdin.read()): print(f.name, f.type, len(f.samples))';
  const parsed = feed(PYTHON, ['-c', script], page);
  assert.is(parsed.status, 0, parsed.said);
  const families = page.split('\n').filter((line) => line.startsWith('# TYPE ')).length;
  assert.is(parsed.said.trim().split('\n').length, families);
});

const NOTHING: Snapshot = {
  version: '1.2.3',
  ready: false,
  queue: { waiting: 0, active: 0 },
  models: [],
  engines: { crashes: 0, restarts: 0 },
  providers: [LOCAL],
  spans: null,
};

test('the number of labels is bounded whatever models are requested, and a path is never a label', async () => {
  const metrics = new Metrics({ vllmAliases: false, snapshot: () => NOTHING });
  for (let i = 0; i < 1000; i += 1) {
    metrics.answerEnded({
      kind: 'generation',
      caller: CONTROL_CALLER,
      provider: 'local',
      model: `m${String(i)}`,
      outcome: 'ok',
      firstTextMs: 1,
      finish: FINISH,
      attempts: [],
    });
  }
  const path = '/models/private.gguf';
  for (const model of [path, `file:${path}`]) {
    metrics.answerEnded({
      kind: 'generation',
      caller: CONTROL_CALLER,
      provider: 'local',
      model,
      outcome: 'ok',
      firstTextMs: 1,
      finish: FINISH,
      attempts: [],
    });
  }
  const { text } = await metrics.page('admin');
  const models = new Set(Array.from(text.matchAll(/model="([^"]*)"/g), ([, model]) => model));
  assert.is(models.size, 102);
  assert.ok(models.has('other') && models.has('file') && models.has('m99') && !models.has('m100'));
  assert.is(parse(text).get('svc_generations_total{provider="local",model="other",outcome="ok"}'), 900);
});

test('a scope that allows no providers reads neither their names nor those of API keys', async () => {
  const providers = ['openai', 'secret-cluster'].map((name) => ({ name, state: 'unhealthy' }) as ProviderRecord);
  const metrics = new Metrics({ vllmAliases: false, snapshot: () => ({ ...NOTHING, providers }) });
  const usage = { input_tokens: 7, output_tokens: 2, cached_tokens: 3 };
  for (const provider of ['local', 'openai']) {
    metrics.answerEnded({
      kind: 'generation',
      caller: { kind: 'key', name: 'alice', address: '::1', scope: 'inference' },
      ...{ provider, model: `${provider}-model`, outcome: 'ok', firstTextMs: 1, finish: { ...FINISH, usage } },
      attempts: [{ provider: 'openai', code: 'TIMEOUT' }],
    });
  }
  metrics.requestEnded('/metrics', 200);
  const { text, contentType } = await metrics.page('local');
  assert.not.match(text, /openai|secret-cluster|alice/);
  const page = parse(text);
  assert.is(page.get('svc_generations_total{provider="local",model="local-model",outcome="ok"}'), 1);
  assert.is(page.get('svc_http_requests_total{route="/metrics",status="200"}'), 1);
  assert.is(page.get('svc_ready'), 0);
  assert.ok(
    [...page.keys()].some((name) => name.startsWith('svc_time_to_first_token_seconds_bucket{le="')),
    text,
  );

  const whole = await metrics.page('inference');
  assert.is(whole.contentType, contentType);
  for (const name of ['openai', 'secret-cluster', 'alice']) assert.ok(whole.text.includes(name), name);
  assert.equal(families(text), families(whole.text));
});

const families = (page: string): string[] => page.split('\n').filter((line) => line.startsWith('# TYPE '));

test('requests are counted by API key, and the number of key names is bounded', async () => {
  const metrics = new Metrics({ vllmAliases: false, snapshot: () => NOTHING });
  const answered = (caller: Caller, provider: string): void => {
    const usage = { input_tokens: 7, output_tokens: 2, cached_tokens: 3 };
    const outcome = { provider, model: 'm', outcome: 'ok', firstTextMs: 1, finish: { ...FINISH, usage } } as const;
    metrics.answerEnded({ kind: 'generation', caller, ...outcome, attempts: [] });
  };
  answered(CONTROL_CALLER, 'local');
  for (let i = 0; i < 300; i += 1)
    answered({ kind: 'key', name: `k${String(i)}`, address: '::1', scope: 'inference' }, 'openai');
  const { text } = await metrics.page('admin');
  const page = parse(text);
  assert.is(page.get('svc_key_requests_total{key="none",provider="local",outcome="ok"}'), 1);
  assert.is(page.get('svc_key_requests_total{key="k7",provider="openai",outcome="ok"}'), 1);
  assert.is(page.get('svc_key_tokens_total{key="k7",provider="openai"}'), 9);
  assert.is(page.get('svc_key_tokens_total{key="other",provider="openai"}'), 9 * 200);
  assert.is(new Set(Array.from(text.matchAll(/key="([^"]*)"/g), ([, key]) => key)).size, 102);
});

test('values that cannot be measured are omitted', async () => {
  const unknown: LoadedModelHealth = {
    id: 'm',
    state: 'loading',
    pid: null,
    rss_bytes: null,
    context_length: null,
    cache_type: null,
    active: 0,
    waiting: 2,
    kv_cells_used: null,
    kv_cells_cached: null,
    kv_cells_total: null,
    kv_tokens_swapped: null,
    tokens_per_second: null,
    steps: null,
  };
  let models = [unknown];
  const metrics = new Metrics({ vllmAliases: true, snapshot: () => ({ ...NOTHING, models }) });
  const page = parse((await metrics.page('admin')).text);
  assert.is(page.get('svc_model_requests_waiting{model="m"}'), 2);
  const absent = ['svc_kv_cells_used', 'svc_kv_cells_cached', 'svc_kv_cells_capacity', 'svc_engine_steps_total'];
  for (const name of [...absent, 'svc_engine_threads', 'svc_engine_resident_memory_bytes']) {
    assert.not.ok(
      [...page.keys()].some((key) => key.startsWith(name)),
      name,
    );
  }
  assert.is(page.get('vllm:kv_cache_usage_perc'), 0);
  models = [];
  assert.not.match((await metrics.page('admin')).text, /model="m"/, 'gone when it is unloaded');
});

for (const { kind, route, body, metric } of [
  { kind: 'embedding', route: '/v1/embeddings', body: { input: 'Hello' }, metric: 'svc_embeddings_total' },
  { kind: 'reranking', route: '/rerank', body: { query: 'a', documents: ['b'] }, metric: 'svc_rerankings_total' },
] as const) {
  test(`${kind} requests are counted separately, and their tokens as prompt tokens`, async () => {
    const before = await samples();
    assert.is((await ask({ port }, route, { body })).status, 400);
    const after = await samples();
    const grown = (name: string): number => (after.get(name) ?? 0) - (before.get(name) ?? 0);
    assert.is(grown(`${metric}{provider="local",model="none",outcome="INVALID_REQUEST"}`), 1);
    assert.is(grown('svc_generations_total{provider="local",model="none",outcome="INVALID_REQUEST"}'), 0);

    const metrics = new Metrics({ vllmAliases: false, snapshot: () => NOTHING });
    const finish: FinishEvent = { ...FINISH, usage: { input_tokens: 9, output_tokens: 0, cached_tokens: 0 } };
    metrics.answerEnded({
      kind,
      caller: CONTROL_CALLER,
      provider: 'local',
      model: 'm',
      outcome: 'ok',
      firstTextMs: 1,
      finish,
      attempts: [],
    });
    const page = parse((await metrics.page('admin')).text);
    assert.is(page.get(`${metric}{provider="local",model="m",outcome="ok"}`), 1);
    assert.is(page.get('svc_input_tokens_total{provider="local",model="m"}'), 9);
    assert.is(page.get('svc_time_to_first_token_seconds_count{provider="local",model="m"}'), undefined);
  });
}

test('requests to tokenize are counted separately, and their tokens not at all', async () => {
  const before = await samples();
  assert.is((await ask({ port }, '/detokenize', { body: { tokens: [0x7fff_ffff] } })).status, 400);
  assert.is((await ask({ port }, '/tokenize', { body: { content: 'Hello' } })).status, 200);
  const after = await samples();
  const grown = [...after].filter(([name, value]) => value > (before.get(name) ?? 0)).map(([name]) => name);
  const counted = grown.filter((name) => name.startsWith('svc_tokenizations_total'));
  assert.is(counted.length, 2, 'one is ok, one is refused');
  assert.not.ok(grown.some((name) => /^svc_(input|key|output)_tokens_total|^svc_generations_total/.test(name)));
});

test('docs/metrics.md lists every metric with name, type and labels', async () => {
  const rows = read('docs/metrics.md')
    .split('\n')
    .filter((line) => /^\| `/.test(line))
    .map((line) =>
      line
        .split('|')
        .slice(1, 4)
        .map((cell) => cell.replaceAll('`', '').trim()),
    );
  const documented = new Map(rows.map(([name = '', ...rest]) => [name, rest]));

  await heartbeat();
  const page = (await ask({ port }, '/metrics')).text;
  const types = Array.from(page.matchAll(/^# TYPE (\S+) (\S+)$/gm), ([, name = '', type = '']) => ({ name, type }));
  assert.equal([...documented.keys()].sort(), types.map(({ name }) => name).sort());
  for (const { name, type } of types) {
    const sample = new RegExp(`^${name}(?:_sum)?(?:\\{(.*)\\})? `, 'm').exec(page);
    assert.ok(sample, `${name} has no value: the tests before have given it one`);
    const labels = Array.from((sample[1] ?? '').matchAll(/(\w+)="/g), ([, label]) => label).join(', ');
    assert.equal(documented.get(name), [type, labels], name);
  }
});

test.run();
